// A Runtime Extension that is written for Cluster API, with its published module and its server: topologist must call it as
// Cluster API's manager does.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
)

// holdPrefix begins the annotations of a Cluster that make a lifecycle hook block for a second.
const holdPrefix = "go.example.com/hold-"

// steps are the versions of upgrade plans.
var steps = []string{"v1.32.5", "v1.33.0", "v1.34.0"}

func main() {
	port := flag.Int("port", 9443, "where to listen")
	certificates := flag.String("cert-dir", "", "the folder with tls.crt and tls.key")
	document := flag.Bool("openapi", false, "print an OpenAPI document of Cluster API's hooks and end")
	flag.Parse()
	start := func() error { return run(*port, *certificates) }
	if *document {
		start = openapi
	}
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(port int, certificates string) error {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return err
	}
	extension, err := server.New(server.Options{Catalog: catalog, Port: port, CertDir: certificates, Host: "127.0.0.1"})
	if err != nil {
		return err
	}
	handlers := []server.ExtensionHandler{
		{Hook: runtimehooksv1.GeneratePatches, Name: "generate", HandlerFunc: generate},
		{Hook: runtimehooksv1.ValidateTopology, Name: "validate", HandlerFunc: validate},
		{Hook: runtimehooksv1.DiscoverVariables, Name: "variables", HandlerFunc: variables},
		{Hook: runtimehooksv1.GenerateUpgradePlan, Name: "plan", HandlerFunc: plan},
		{Hook: runtimehooksv1.BeforeClusterCreate, Name: "before-create",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.BeforeClusterCreateRequest, response *runtimehooksv1.BeforeClusterCreateResponse) {
				hold("BeforeClusterCreate", &request.Cluster, &response.CommonRetryResponse)
			}},
		{Hook: runtimehooksv1.AfterControlPlaneInitialized, Name: "after-initialized",
			HandlerFunc: func(_ context.Context, _ *runtimehooksv1.AfterControlPlaneInitializedRequest, response *runtimehooksv1.AfterControlPlaneInitializedResponse) {
				called("AfterControlPlaneInitialized")
				response.Status = runtimehooksv1.ResponseStatusSuccess
			}},
		{Hook: runtimehooksv1.BeforeClusterUpgrade, Name: "before-upgrade",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.BeforeClusterUpgradeRequest, response *runtimehooksv1.BeforeClusterUpgradeResponse) {
				hold("BeforeClusterUpgrade", &request.Cluster, &response.CommonRetryResponse)
			}},
		{Hook: runtimehooksv1.BeforeControlPlaneUpgrade, Name: "before-plane",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest, response *runtimehooksv1.BeforeControlPlaneUpgradeResponse) {
				hold("BeforeControlPlaneUpgrade", &request.Cluster, &response.CommonRetryResponse)
			}},
		{Hook: runtimehooksv1.AfterControlPlaneUpgrade, Name: "after-plane",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.AfterControlPlaneUpgradeRequest, response *runtimehooksv1.AfterControlPlaneUpgradeResponse) {
				hold("AfterControlPlaneUpgrade", &request.Cluster, &response.CommonRetryResponse)
			}},
		{Hook: runtimehooksv1.BeforeWorkersUpgrade, Name: "before-workers",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.BeforeWorkersUpgradeRequest, response *runtimehooksv1.BeforeWorkersUpgradeResponse) {
				hold("BeforeWorkersUpgrade", &request.Cluster, &response.CommonRetryResponse)
			}},
		{Hook: runtimehooksv1.AfterWorkersUpgrade, Name: "after-workers",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.AfterWorkersUpgradeRequest, response *runtimehooksv1.AfterWorkersUpgradeResponse) {
				hold("AfterWorkersUpgrade", &request.Cluster, &response.CommonRetryResponse)
			}},
		{Hook: runtimehooksv1.AfterClusterUpgrade, Name: "after-upgrade",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.AfterClusterUpgradeRequest, response *runtimehooksv1.AfterClusterUpgradeResponse) {
				hold("AfterClusterUpgrade", &request.Cluster, &response.CommonRetryResponse)
			}},
		{Hook: runtimehooksv1.BeforeClusterDelete, Name: "before-delete",
			HandlerFunc: func(_ context.Context, request *runtimehooksv1.BeforeClusterDeleteRequest, response *runtimehooksv1.BeforeClusterDeleteResponse) {
				hold("BeforeClusterDelete", &request.Cluster, &response.CommonRetryResponse)
			}},
	}
	for _, handler := range handlers {
		if err := extension.AddExtensionHandler(handler); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return extension.Start(ctx)
}

func called(hook string) {
	fmt.Println("called", hook)
}

// hold blocks while the Cluster has the annotation of the hook.
func hold(hook string, cluster *clusterv1.Cluster, response *runtimehooksv1.CommonRetryResponse) {
	called(hook)
	response.Status = runtimehooksv1.ResponseStatusSuccess
	if _, holds := cluster.Annotations[holdPrefix+strings.ToLower(hook)]; holds {
		response.RetryAfterSeconds = 1
		response.Message = "the annotation holds " + cluster.Name
	}
}

// generate sets the format of bootstrap data with a JSON patch, and a label of infrastructure clusters with a merge patch.
func generate(_ context.Context, request *runtimehooksv1.GeneratePatchesRequest, response *runtimehooksv1.GeneratePatchesResponse) {
	called("GeneratePatches")
	format := "cloud-config"
	for _, variable := range request.Variables {
		if variable.Name == "format" {
			if err := json.Unmarshal(variable.Value.Raw, &format); err != nil {
				fail(&response.CommonResponse, err)
				return
			}
		}
	}
	for _, item := range request.Items {
		switch item.HolderReference.FieldPath {
		case "spec.template.spec.bootstrap.configRef":
			if item.HolderReference.Kind != "MachineDeployment" {
				continue
			}
			patch := fmt.Sprintf(`[{"op": "add", "path": "/spec/template/spec/format", "value": %q}]`, format)
			response.Items = append(response.Items, runtimehooksv1.GeneratePatchesResponseItem{
				UID: item.UID, PatchType: runtimehooksv1.JSONPatchType, Patch: []byte(patch)})
		case "spec.infrastructureRef":
			patch := fmt.Sprintf(`{"spec": {"template": {"metadata": {"labels": {"place": %q}}}}}`, request.Settings["place"])
			response.Items = append(response.Items, runtimehooksv1.GeneratePatchesResponseItem{
				UID: item.UID, PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(patch)})
		}
	}
	response.Status = runtimehooksv1.ResponseStatusSuccess
}

// validate refuses a topology whose bootstrap data has the format "none".
func validate(_ context.Context, request *runtimehooksv1.ValidateTopologyRequest, response *runtimehooksv1.ValidateTopologyResponse) {
	called("ValidateTopology")
	for _, variable := range request.Variables {
		if variable.Name == "refuse" && string(variable.Value.Raw) == `"yes"` {
			fail(&response.CommonResponse, fmt.Errorf("the variable refuse says so"))
			return
		}
	}
	response.Status = runtimehooksv1.ResponseStatusSuccess
}

func variables(_ context.Context, _ *runtimehooksv1.DiscoverVariablesRequest, response *runtimehooksv1.DiscoverVariablesResponse) {
	called("DiscoverVariables")
	required := false
	text := func(name, value string, values ...string) clusterv1.ClusterClassVariable {
		schema := clusterv1.JSONSchemaProps{Type: "string"}
		schema.Default = &apiextensionsv1.JSON{Raw: []byte(fmt.Sprintf("%q", value))}
		for _, one := range values {
			schema.Enum = append(schema.Enum, apiextensionsv1.JSON{Raw: []byte(fmt.Sprintf("%q", one))})
		}
		return clusterv1.ClusterClassVariable{Name: name, Required: &required,
			Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}
	}
	response.Variables = []clusterv1.ClusterClassVariable{
		text("format", "cloud-config", "cloud-config", "ignition"),
		text("refuse", "no", "no", "yes"),
	}
	response.Status = runtimehooksv1.ResponseStatusSuccess
}

// plan goes through all steps above the version of the control plane up to the target.
func plan(_ context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, response *runtimehooksv1.GenerateUpgradePlanResponse) {
	called("GenerateUpgradePlan")
	for _, step := range steps {
		if step > request.FromControlPlaneKubernetesVersion && step <= request.ToKubernetesVersion {
			response.ControlPlaneUpgrades = append(response.ControlPlaneUpgrades, runtimehooksv1.UpgradeStep{Version: step})
		}
	}
	if request.FromWorkersKubernetesVersion != "" && request.FromWorkersKubernetesVersion != request.ToKubernetesVersion {
		response.WorkersUpgrades = append(response.WorkersUpgrades, runtimehooksv1.UpgradeStep{Version: request.ToKubernetesVersion})
	}
	response.Status = runtimehooksv1.ResponseStatusSuccess
}

func fail(response *runtimehooksv1.CommonResponse, err error) {
	response.Status = runtimehooksv1.ResponseStatusFailure
	response.Message = err.Error()
}
