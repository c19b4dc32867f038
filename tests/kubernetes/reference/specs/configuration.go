package main

import (
	"path/filepath"
	"time"

	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
)

// The version of the local clusterctl repository: the next patch of the minor release under test, as metadata.yaml knows it.
const release = "v1.14.99"

// Kubernetes versions of the Clusters.
const (
	kubernetesBefore = "v1.36.4"
	kubernetes       = "v1.37.0"
	// Four minor versions below, for an upgrade in several steps.
	kubernetesLongBefore = "v1.33.12"
)

// configuration has the variables and intervals that the specs ask for.
func configuration(pace float64) *clusterctl.E2EConfig {
	config := &clusterctl.E2EConfig{
		Variables: map[string]string{
			"KUBERNETES_VERSION":              kubernetes,
			"KUBERNETES_VERSION_UPGRADE_FROM": kubernetesBefore,
			"KUBERNETES_VERSION_UPGRADE_TO":   kubernetes,
			"ETCD_VERSION_UPGRADE_TO":         "3.7.0-0",
			"COREDNS_VERSION_UPGRADE_TO":      "v1.14.6",
			"DOCKER_SERVICE_DOMAIN":           "cluster.local",
			"DOCKER_SERVICE_CIDRS":            "10.128.0.0/12",
			"DOCKER_POD_CIDRS":                "192.168.0.0/16",
		},
		Intervals: map[string][]string{},
	}
	for key, waiting := range map[string]struct{ whole, pause time.Duration }{
		"default/wait-cluster":                         {5 * time.Minute, 2 * time.Second},
		"default/wait-control-plane":                   {10 * time.Minute, 2 * time.Second},
		"default/wait-worker-nodes":                    {5 * time.Minute, 2 * time.Second},
		"default/wait-machine-pool-nodes":              {time.Minute, 2 * time.Second},
		"default/wait-delete-cluster":                  {5 * time.Minute, 2 * time.Second},
		"default/wait-machine-upgrade":                 {10 * time.Minute, 2 * time.Second},
		"default/wait-control-plane-upgrade":           {10 * time.Minute, 2 * time.Second},
		"default/wait-machine-deployment-upgrade":      {10 * time.Minute, 2 * time.Second},
		"default/wait-machine-pool-upgrade":            {time.Minute, 2 * time.Second},
		"default/wait-nodes-ready":                     {5 * time.Minute, 2 * time.Second},
		"default/wait-resource-versions-become-stable": {5 * time.Minute, 5 * time.Second},
		"scale/wait-cluster":                           {10 * time.Minute, 5 * time.Second},
		"scale/wait-control-plane":                     {20 * time.Minute, 5 * time.Second},
		"scale/wait-worker-nodes":                      {20 * time.Minute, 5 * time.Second},
		"scale/wait-delete-cluster":                    {10 * time.Minute, 5 * time.Second},
	} {
		whole := time.Duration(float64(waiting.whole) * pace)
		config.Intervals[key] = []string{whole.String(), waiting.pause.String()}
	}
	// How long nothing may change: not a time to wait for a state.
	config.Intervals["default/wait-resource-versions-remain-stable"] = []string{"1m", "5s"}
	return config
}

// providers returns the part of the configuration that the local clusterctl repository is made from. Templates come from the
// infrastructure provider alone.
func providers(components, metadata string, templates []string) []clusterctl.ProviderConfig {
	version := clusterctl.ProviderVersionSource{
		Name:  release,
		Value: components,
		Type:  clusterctl.URLSource,
		Files: []clusterctl.Files{{SourcePath: metadata, TargetName: "metadata.yaml"}},
	}
	for _, template := range templates {
		version.Files = append(version.Files, clusterctl.Files{SourcePath: template, TargetName: filepath.Base(template)})
	}
	return []clusterctl.ProviderConfig{{
		Name:     "docker",
		Type:     "InfrastructureProvider",
		Versions: []clusterctl.ProviderVersionSource{version},
	}}
}
