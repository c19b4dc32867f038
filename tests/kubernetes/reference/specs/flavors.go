package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// makeTemplates writes the templates of Clusters and classes in the folder source, changed to machines in memory, and returns their
// paths. A template is a file or a folder for kustomize.
func makeTemplates(kustomize, source, target string) ([]string, error) {
	entries, err := os.ReadDir(source)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, err
	}
	var written []string
	for _, entry := range entries {
		name, isFile := strings.CutSuffix(entry.Name(), ".yaml")
		if !slices.Contains(wanted, name) {
			continue
		}
		path := filepath.Join(source, entry.Name())
		var content []byte
		if isFile {
			content, err = os.ReadFile(path)
		} else {
			// The kustomizations take files of folders beside them.
			content, err = exec.Command(kustomize, "build", "--load-restrictor", "LoadRestrictionsNone", path).Output()
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				err = fmt.Errorf("kustomize build: %s", failed.Stderr)
			}
		}
		if err == nil {
			content, err = inMemory(content)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		written = append(written, filepath.Join(target, name+".yaml"))
		if err := os.WriteFile(written[len(written)-1], content, 0o600); err != nil {
			return nil, err
		}
	}
	if len(written) != len(wanted) {
		return nil, fmt.Errorf("%s has %d of the %d templates %v", source, len(written), len(wanted), wanted)
	}
	return written, nil
}

// wanted names the templates that the specs use.
var wanted = []string{
	"cluster-template-in-memory-scale",
	"cluster-template-in-memory-topology",
	"cluster-template-topology",
	"cluster-template-topology-kcp-only",
	"cluster-template-topology-runtimesdk-v1beta1",
	"cluster-template-upgrades-runtimesdk",
	"clusterclass-in-memory",
	"clusterclass-quick-start",
	"clusterclass-quick-start-kcp-only",
	"clusterclass-quick-start-runtimesdk",
	"clusterclass-quick-start-runtimesdk-v1beta1",
}

// inMemory changes a template from containers to machines in memory: backends are replaced, with the patches of their fields, and
// what the provider has only in containers is left out: machine pools and the network plugin. Nodes of YAML keep quotes, which decide
// whether a substituted variable is a number or a text.
func inMemory(template []byte) ([]byte, error) {
	var objects []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(template))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, document.Content[0])
	}
	unused := usedByPoolsAlone(objects)

	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	for _, object := range objects {
		switch text(object, "kind") {
		case "ClusterResourceSet", "ConfigMap", "DevMachinePoolTemplate":
			continue
		case "KubeadmConfigTemplate":
			if slices.Contains(unused, text(at(object, "metadata"), "name")) {
				continue
			}
		case "DevClusterTemplate":
			replaceBackend(object, "{}")
		case "DevMachineTemplate":
			replaceBackend(object, machine)
		case "ClusterClass":
			remove(at(object, "spec", "workers"), "machinePools")
			keepPatches(at(object, "spec"))
		case "Cluster":
			remove(at(object, "spec", "topology", "workers"), "machinePools")
		}
		if err := encoder.Encode(object); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), encoder.Close()
}

// usedByPoolsAlone returns the names of bootstrap templates that only machine pools of a class use.
func usedByPoolsAlone(objects []*yaml.Node) []string {
	names := func(key string) (names []string) {
		for _, object := range objects {
			if workers := at(object, "spec", "workers", key); workers != nil && text(object, "kind") == "ClusterClass" {
				for _, worker := range workers.Content {
					names = append(names, text(at(worker, "bootstrap", "templateRef"), "name"))
				}
			}
		}
		return names
	}
	sets := names("machineDeployments")
	return slices.DeleteFunc(names("machinePools"), func(name string) bool { return slices.Contains(sets, name) })
}

// machine has the durations of a machine in memory.
const machine = `
vm: {provisioning: {startupDuration: 5s, startupJitter: "0.2"}}
node: {provisioning: {startupDuration: 1s, startupJitter: "0.2"}}
apiServer: {provisioning: {startupDuration: 1s, startupJitter: "0.2"}}
etcd: {provisioning: {startupDuration: 1s, startupJitter: "0.2"}}
`

// replaceBackend replaces a backend of containers by one in memory.
func replaceBackend(object *yaml.Node, inMemory string) {
	backend := at(object, "spec", "template", "spec", "backend")
	if at(backend, "docker") == nil {
		return
	}
	var value yaml.Node
	if err := yaml.Unmarshal([]byte(inMemory), &value); err != nil {
		panic(err) // a constant above
	}
	backend.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: "inMemory"}, value.Content[0]}
}

// keepPatches keeps the patches of a class that have something left to change.
func keepPatches(spec *yaml.Node) {
	patches := at(spec, "patches")
	filter(patches, func(patch *yaml.Node) bool {
		definitions := at(patch, "definitions")
		if definitions == nil {
			return true
		}
		filter(definitions, func(definition *yaml.Node) bool {
			matches := at(definition, "selector", "matchResources")
			remove(matches, "machinePoolClass")
			operations := at(definition, "jsonPatches")
			filter(operations, func(operation *yaml.Node) bool {
				return !strings.HasPrefix(text(operation, "path"), "/spec/template/spec/backend/docker")
			})
			return len(matches.Content) > 0 && len(operations.Content) > 0
		})
		return len(definitions.Content) > 0
	})
	if patches != nil && len(patches.Content) == 0 {
		remove(spec, "patches")
	}
}

// at returns the value at a path of keys, or nil.
func at(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		var value *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				value = node.Content[i+1]
			}
		}
		node = value
	}
	return node
}

// text returns the scalar at a key, "" without one.
func text(node *yaml.Node, key string) string {
	if value := at(node, key); value != nil {
		return value.Value
	}
	return ""
}

// remove removes a key from a mapping, which may be absent.
func remove(node *yaml.Node, key string) {
	if node == nil {
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			node.Content = slices.Delete(node.Content, i, i+2)
			return
		}
	}
}

// filter keeps the items of a sequence, which may be absent.
func filter(node *yaml.Node, keep func(*yaml.Node) bool) {
	if node != nil {
		node.Content = slices.DeleteFunc(node.Content, func(item *yaml.Node) bool { return !keep(item) })
	}
}
