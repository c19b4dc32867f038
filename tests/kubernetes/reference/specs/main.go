// Command specs runs Cluster API's end-to-end specs on a management cluster that runs already, with machines in memory.
//
// Without -child it prepares what all specs share (the inventory of clusterctl, a local clusterctl repository with flavors whose
// machines are in memory), runs each spec in a process of its own, some at once, and prints one line for each:
//
//	passed	quick-start	68s
//
// The exit code is 1 if a spec failed. The folder of artifacts has a log for each spec.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// options are the arguments that a parent hands on to its children.
type options struct {
	kubeconfig string // the management cluster
	data       string // what tests/kubernetes/build copies from the modules of Cluster API
	kustomize  string
	artifacts  string
	pace       float64 // factor for the time that a spec waits for a state
	keep       bool    // whether objects stay when a spec ends
}

func main() {
	var o options
	flags := flag.NewFlagSet("specs", flag.ExitOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the management cluster")
	flags.StringVar(&o.data, "data", "", "folder of data, as tests/kubernetes/build makes it")
	flags.StringVar(&o.kustomize, "kustomize", "kustomize", "the kustomize program")
	flags.StringVar(&o.artifacts, "artifacts", "", "folder for logs and dumps of objects")
	flags.Float64Var(&o.pace, "pace", 1, "factor for the time that a spec waits for a state")
	flags.BoolVar(&o.keep, "keep", false, "keep the objects of a spec when it ends")
	parallel := flags.Int("parallel", 3, "number of specs that run at once")
	child := flags.String("child", "", "run this spec alone; all is prepared")
	list := flags.Bool("list", false, "print the names of the specs")
	_ = flags.Parse(os.Args[1:])

	if *list {
		for _, s := range specs {
			fmt.Println(s.name)
		}
		return
	}
	if err := o.complete(); err != nil {
		fail(err)
	}
	cleanEnvironment(o.artifacts)
	if *child != "" {
		s, err := named(*child)
		if err != nil {
			fail(err)
		}
		if !runSpec(o, s) {
			os.Exit(1)
		}
		return
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		fail(err)
	}
	if err := prepare(o); err != nil {
		fail(err)
	}
	if !runAll(o, chosen, *parallel) {
		os.Exit(1)
	}
}

// complete checks the options and makes the paths absolute, as clusterctl wants them.
func (o *options) complete() error {
	for _, path := range []*string{&o.kubeconfig, &o.data, &o.artifacts} {
		if *path == "" {
			return fmt.Errorf("-kubeconfig, -data and -artifacts are required")
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if o.pace <= 0 {
		return fmt.Errorf("-pace must be positive")
	}
	return os.MkdirAll(o.artifacts, 0o750)
}

// cleanEnvironment removes variables, which the specs and clusterctl would prefer to their configuration.
func cleanEnvironment(home string) {
	path, temporary := os.Getenv("PATH"), os.TempDir()
	os.Clearenv()
	for name, value := range map[string]string{
		"PATH":   path,
		"TMPDIR": temporary,
		"HOME":   home,
		// Otherwise each use of clusterctl waits a minute for an answer about newer versions.
		"CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			fail(err)
		}
	}
}

// clusterctlConfig is the path of the configuration that prepare writes.
func (o options) clusterctlConfig() string {
	return filepath.Join(o.artifacts, "repository", "clusterctl-config.yaml")
}

// choose returns the specs of these names, all of them without a name.
func choose(names []string) ([]spec, error) {
	if len(names) == 0 {
		return specs, nil
	}
	var chosen []spec
	for _, name := range names {
		s, err := named(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

func named(name string) (spec, error) {
	var names []string
	for _, s := range specs {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return spec{}, fmt.Errorf("no spec %q; there are %s", name, strings.Join(names, ", "))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "specs:", err)
	os.Exit(2)
}
