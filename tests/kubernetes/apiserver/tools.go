//go:build tools

// Package tools keeps kube-apiserver, kube-controller-manager and kubectl among the requirements of this module, so
// that `go mod tidy` does not drop them.
//
// Kubernetes refers to its own libraries (staging modules) by version v0.0.0, which only its source tree can resolve;
// go.mod replaces each with the version published for the same release. Move all of them together.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
