# SPDX-License-Identifier: Apache-2.0
"""What the tests, the benchmarks and the quickstart share."""
