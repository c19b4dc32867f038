package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
)

// longest is the time after which a spec is stopped.
const longest = 40 * time.Minute

// environment is what every spec gets.
type environment struct {
	ctx              context.Context
	config           *clusterctl.E2EConfig
	clusterctlConfig string
	proxy            framework.ClusterProxy
	artifacts        string
	keep             bool
}

// runAll runs each spec in a process of its own and says whether all passed. Those that load the machine run after the others, one by
// one: some specs wait 20 seconds for an answer, which nothing can prolong.
func runAll(o options, chosen []spec, parallel int) bool {
	var light, heavy []spec
	for _, s := range chosen {
		if s.heavy {
			heavy = append(heavy, s)
		} else {
			light = append(light, s)
		}
	}
	passed := runGroup(o, light, max(parallel, 1))
	return runGroup(o, heavy, 1) && passed
}

// runGroup runs some specs at once.
func runGroup(o options, group []spec, parallel int) bool {
	var (
		running  sync.WaitGroup
		printing sync.Mutex
		places   = make(chan struct{}, parallel)
		passed   = true
	)
	for _, s := range group {
		running.Add(1)
		places <- struct{}{}
		go func() {
			defer running.Done()
			defer func() { <-places }()
			start := time.Now()
			log, err := runChild(o, s)
			printing.Lock()
			defer printing.Unlock()
			seconds := int(time.Since(start).Seconds())
			if err == nil {
				fmt.Printf("passed\t%s\t%ds\n", s.name, seconds)
				return
			}
			passed = false
			fmt.Printf("failed\t%s\t%ds\n%v; the log is %s\n%s\n", s.name, seconds, err, log, reason(log))
		}()
	}
	running.Wait()
	return passed
}

// runChild runs one spec in a process of its own and returns the path of its log.
func runChild(o options, s spec) (string, error) {
	folder := filepath.Join(o.artifacts, s.name)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	program, err := os.Executable()
	if err != nil {
		return log.Name(), err
	}
	command := exec.Command(program, "-child", s.name, "-kubeconfig", o.kubeconfig, "-data", o.data, "-artifacts", o.artifacts,
		"-pace", strconv.FormatFloat(o.pace, 'g', -1, 64), "-keep="+strconv.FormatBool(o.keep))
	command.Stdout, command.Stderr = log, log
	// The child ends when this process does: the kernel closes the pipe.
	if _, err := command.StdinPipe(); err != nil {
		return log.Name(), err
	}
	if err := command.Start(); err != nil {
		return log.Name(), err
	}
	return log.Name(), command.Wait()
}

// reason returns what a log says of the failure, or its last lines.
func reason(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	log := strings.TrimRight(string(content), "\n")
	if at := strings.LastIndex(log, "\n• ["); at >= 0 {
		return log[at+1:]
	}
	lines := strings.Split(log, "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// runSpec runs one spec in this process, unless the parent ends first, and says whether it passed.
func runSpec(o options, s spec) bool {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx := ctrl.SetupSignalHandler()
	ctrl.SetLogger(klog.Background())
	gomega.RegisterFailHandler(ginkgo.Fail)

	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	folder := filepath.Join(o.artifacts, s.name)
	e := &environment{
		ctx:              ctx,
		config:           configuration(o.pace),
		clusterctlConfig: o.clusterctlConfig(),
		proxy:            newProxy(framework.NewClusterProxy("management", o.kubeconfig, scheme), folder),
		artifacts:        folder,
		keep:             o.keep,
	}
	ginkgo.Describe(s.name, func() { s.register(e) })

	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.Timeout = longest
	suite.FailOnEmpty = true
	reporter.NoColor = true
	reporter.Verbose = true
	return ginkgo.RunSpecs(suiteOutcome{}, s.name, suite, reporter)
}

// suiteOutcome ignores the failure of a suite: RunSpecs returns it.
type suiteOutcome struct{}

func (suiteOutcome) Fail() {}
