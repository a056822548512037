// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools keeps the modules of programs that are built, but not
// imported, in go.mod.
package tools

import (
	_ "github.com/onsi/ginkgo/v2/ginkgo"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/kubernetes/test/images/regression-issue-74839"
)
