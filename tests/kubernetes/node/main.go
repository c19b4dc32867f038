// A node of a cluster, as far as port forwarding goes: the kubelet's own code serves the streams. Pods are processes of this
// machine, so each of their ports is one of 127.0.0.1.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
)

func main() {
	certificate := flag.String("cert", "tls.crt", "the certificate")
	key := flag.String("key", "tls.key", "its key")
	flag.Parse()
	if err := run(*certificate, *key); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run prints the port and serves until standard input ends.
func run(certificate, key string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", forward)
	return http.ServeTLS(listener, mux, certificate, key)
}

func forward(w http.ResponseWriter, request *http.Request) {
	options, err := portforward.NewV4Options(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, request, pod{}, request.PathValue("pod"), "", options, time.Minute, time.Minute,
		portforward.SupportedProtocols)
}

// pod is any Pod of this node.
type pod struct{}

func (pod) PortForward(ctx context.Context, _ string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}
