/* SPDX-License-Identifier: Apache-2.0 */
/* A gateway port that has lost its link.
 *
 * To get a new link the switch has to close the port and to open it again, and
 * as it does in one go what it is told in one go, it has to have closed the
 * port before it is told to open it.  So the port gets a type that no switch
 * has; and its own one again once the switch has answered, with -1 for the
 * port number.
 *
 * The row stays where it is, with all that it says, and tells whoever comes
 * next in what state the port is: nothing is lost when this program or the
 * switch ends in between. */

#include "ovsdb-private.h"

#include <string.h>

#include <openvswitch/util.h>

/* The types of a port with a link of the switch's own, and of a closed one. */
#define OPEN_TYPE   "internal"
#define CLOSED_TYPE "ofproxyd-reopen"

bool
ovsdb_gateway_is_dead(const struct ovsrec_bridge *bridge,
                      const struct ovsrec_interface *iface)
{
    return strcmp(iface->name, bridge->name) && !strcmp(iface->type, OPEN_TYPE)
           && ovsdb_iface_ofport(iface)
           && (!iface->mac_in_use || !iface->mac_in_use[0]);
}

bool
ovsdb_gateway_is_closed(const struct ovsrec_interface *iface)
{
    return !strcmp(iface->type, CLOSED_TYPE);
}

/* The address that the port had is known here only, if the database does not
 * say which one it is to have. */
static void
close_port(struct ovsdb_repair *r, const struct ovsrec_bridge *bridge,
           const struct ovsrec_interface *iface)
{
    const struct ovsrec_port *port = ovsdb_find_port(bridge, r->gateway);

    if ((!iface->mac || !iface->mac[0])
        && ovsdb_mac_is_unicast(&r->gateway_mac)) {
        ovsdb_iface_set_mac(iface, &r->gateway_mac);
    }
    ovsrec_interface_set_type(iface, CLOSED_TYPE);
    r->gateway_closed = true;
    ovsdb_repair_did(r,
                     "took port %s%s out of the switch, since its link is "
                     "gone",
                     r->gateway,
                     port && ovsdb_port_is_made(port)
                         ? ""
                         : ", which ofproxyd has not made,");
}

void
ovsdb_gateway_reopen(struct ovsdb_repair *r,
                     const struct ovsrec_bridge *bridge)
{
    const struct ovsrec_interface *iface =
        ovsdb_find_iface(bridge, r->gateway);

    if (!iface) {
        return;
    }
    if (ovsdb_gateway_is_closed(iface)) {
        if (iface->n_ofport && iface->ofport[0] < 0) {
            ovsrec_interface_set_type(iface, OPEN_TYPE);
            /* The switch's answer to the type of before. */
            ovsrec_interface_set_error(iface, NULL);
            r->gateway_opened = true;
            ovsdb_repair_did(r, "put port %s in again", r->gateway);
        }
    } else if (r->gateway_lost && ovsdb_gateway_is_dead(bridge, iface)) {
        close_port(r, bridge, iface);
    }
}
