package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// installed names the providers that clusterctl must find, the groups of their kinds, and their namespaces.
var installed = []struct {
	name      string
	kind      clusterctlv1.ProviderType
	namespace string
	groups    []string
}{
	{"cluster-api", clusterctlv1.CoreProviderType, "capi-system",
		[]string{"cluster.x-k8s.io", "addons.cluster.x-k8s.io", "runtime.cluster.x-k8s.io", "ipam.cluster.x-k8s.io"}},
	{"kubeadm", clusterctlv1.BootstrapProviderType, "capi-kubeadm-bootstrap-system", []string{"bootstrap.cluster.x-k8s.io"}},
	{"kubeadm", clusterctlv1.ControlPlaneProviderType, "capi-kubeadm-control-plane-system", []string{"controlplane.cluster.x-k8s.io"}},
	{"docker", clusterctlv1.InfrastructureProviderType, "capd-system", []string{"infrastructure.cluster.x-k8s.io"}},
}

// prepare makes what all specs share.
func prepare(o options) error {
	ctrl.SetLogger(klog.Background())
	gomega.RegisterFailHandler(func(message string, _ ...int) { fail(errors.New(message)) })
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	if err := clusterctlv1.AddToScheme(scheme); err != nil {
		return err
	}
	ctx := context.Background()
	c := framework.NewClusterProxy("management", o.kubeconfig, scheme).GetClient()
	if err := installInventory(ctx, c, filepath.Join(o.data, "clusterctl")); err != nil {
		return fmt.Errorf("install the inventory of clusterctl: %w", err)
	}
	if err := labelDefinitions(ctx, c); err != nil {
		return fmt.Errorf("label definitions: %w", err)
	}
	return makeRepository(ctx, o)
}

// installInventory does what `clusterctl init` does besides installing managers.
func installInventory(ctx context.Context, c client.Client, definitions string) error {
	files, err := filepath.Glob(filepath.Join(definitions, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no definitions in %s (%v)", definitions, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if definition.Labels == nil {
			definition.Labels = map[string]string{}
		}
		definition.Labels[clusterctlv1.ClusterctlCoreLabel] = clusterctlv1.ClusterctlCoreLabelInventoryValue
		if err := client.IgnoreAlreadyExists(c.Create(ctx, definition)); err != nil {
			return err
		}
	}
	for _, provider := range installed {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: provider.namespace}}
		if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
			return err
		}
		label := clusterctlv1.ManifestLabel(provider.name, provider.kind)
		object := &clusterctlv1.Provider{
			ObjectMeta: metav1.ObjectMeta{
				Name:      label,
				Namespace: provider.namespace,
				Labels: map[string]string{
					clusterctlv1.ClusterctlLabel:     "",
					clusterv1.ProviderNameLabel:      label,
					clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelInventoryValue,
				},
			},
			ProviderName: provider.name,
			Type:         string(provider.kind),
			Version:      release,
		}
		// The API server serves a new kind a moment after its definition is stored.
		err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
			err := client.IgnoreAlreadyExists(c.Create(ctx, object.DeepCopy()))
			if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
	}
	return nil
}

// labelDefinitions gives Cluster API's definitions the labels by which clusterctl finds the objects of a Cluster.
func labelDefinitions(ctx context.Context, c client.Client) error {
	providers := map[string]string{}
	for _, provider := range installed {
		for _, group := range provider.groups {
			providers[group] = clusterctlv1.ManifestLabel(provider.name, provider.kind)
		}
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(ctx, definitions); err != nil {
		return err
	}
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		provider, ok := providers[definition.Spec.Group]
		if !ok {
			continue
		}
		before := client.MergeFrom(definition.DeepCopy())
		if definition.Labels == nil {
			definition.Labels = map[string]string{}
		}
		definition.Labels[clusterctlv1.ClusterctlLabel] = ""
		definition.Labels[clusterv1.ProviderNameLabel] = provider
		if err := c.Patch(ctx, definition, before); err != nil {
			return err
		}
	}
	return nil
}

// makeRepository writes the local clusterctl repository with the flavors in memory.
func makeRepository(ctx context.Context, o options) error {
	folder := filepath.Join(o.artifacts, "templates")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	templates, err := makeTemplates(o.kustomize, filepath.Join(o.data, "e2e", "infrastructure-docker", "main"), folder)
	if err != nil {
		return err
	}
	// clusterctl reads the components of a provider only to install it.
	components := filepath.Join(folder, "components")
	if err := os.WriteFile(components, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: capd-system}\n"), 0o600); err != nil {
		return err
	}
	config := configuration(o.pace)
	config.Providers = providers(components, filepath.Join(o.data, "e2e", "shared", "main", "metadata.yaml"), templates)
	written := clusterctl.CreateRepository(ctx, clusterctl.CreateRepositoryInput{
		E2EConfig:        config,
		RepositoryFolder: filepath.Dir(o.clusterctlConfig()),
	})
	if written != o.clusterctlConfig() {
		return fmt.Errorf("the configuration of clusterctl is %s, not %s", written, o.clusterctlConfig())
	}
	return nil
}
