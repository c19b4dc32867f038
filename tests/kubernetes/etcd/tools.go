//go:build tools

// Package tools keeps etcd among the requirements of this module, so that `go mod tidy` does not drop it.
package tools

import _ "go.etcd.io/etcd/server/v3"
