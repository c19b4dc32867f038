//go:build tools

// Package tools keeps kustomize among the requirements of this module, so that `go mod tidy` does not drop it.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
