package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// proxy reaches workload clusters at the address in their kubeconfigs. The framework's own goes through a Pod of the provider, which
// is a process here.
type proxy struct {
	framework.ClusterProxy
	folder string
}

func newProxy(management framework.ClusterProxy, folder string) framework.ClusterProxy {
	return proxy{ClusterProxy: management, folder: folder}
}

// GetWorkloadCluster returns a proxy to a workload cluster.
func (p proxy) GetWorkloadCluster(ctx context.Context, namespace, name string, options ...framework.Option) framework.ClusterProxy {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: name + "-kubeconfig"}
	gomega.Eventually(func() error { return p.GetClient().Get(ctx, key, secret) }, 3*time.Minute, 3*time.Second).
		Should(gomega.Succeed(), "no Secret %s", key)
	gomega.Expect(os.MkdirAll(p.folder, 0o750)).To(gomega.Succeed())
	path := filepath.Join(p.folder, fmt.Sprintf("%s.%s.kubeconfig", namespace, name))
	gomega.Expect(os.WriteFile(path, secret.Data["value"], 0o600)).To(gomega.Succeed())
	return framework.NewClusterProxy(name, path, p.GetScheme(), options...)
}
