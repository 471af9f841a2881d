// Command controlplane runs one whole Kubernetes control plane in one
// process: etcd, the API server, the controllers that practice needs and the
// scheduler.
//
// One process means that the parts of a cluster cannot outlive each other,
// that it starts in seconds, and that one build makes it: the parts share
// nearly all of their packages. Several clusters are several processes, because
// the API server keeps global state.
//
// It is started by the practice supervisor, in the cluster's own directory,
// with the certificates and the kubeconfig already there. Everything in it is
// for practice: nothing is synced to disk, and a cluster ends with its process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"
)

// stopGrace bounds the wait for the parts to end by themselves. What they
// would save is thrown away or, on a restart, read back from etcd's log.
const stopGrace = 2 * time.Second

// config says where the parts of a cluster find each other. Paths are relative
// to the working directory, so that the socket's path stays short enough.
type config struct {
	etcdDir    string
	etcdSocket string
	kubeconfig string
	caFile     string
	saKeyFile  string
	listenerFD uint
	apiserver  []string // flags of kube-apiserver
}

func main() {
	cfg, showVersion := parseFlags()
	if showVersion {
		fmt.Println(version.Get().GitVersion)
		return
	}
	if err := run(cfg); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func parseFlags() (cfg config, showVersion bool) {
	flag.StringVar(&cfg.etcdDir, "etcd-dir", "etcd", "data directory of etcd")
	flag.StringVar(&cfg.etcdSocket, "etcd-socket", "etcd.sock", "unix socket between etcd and the API server")
	flag.StringVar(&cfg.kubeconfig, "kubeconfig", "controllers.kubeconfig", "credentials of the controllers and the scheduler")
	flag.StringVar(&cfg.caFile, "ca", "ca.crt", "certificate authority to publish in each namespace")
	flag.StringVar(&cfg.saKeyFile, "service-account-key", "sa.key", "private key that signs service account tokens")
	flag.UintVar(&cfg.listenerFD, "listener-fd", 0, "inherited file descriptor of the API server's listener; 0 opens --secure-port")
	flag.BoolVar(&showVersion, "version", false, "print the Kubernetes version and exit")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: controlplane [flags] -- [kube-apiserver flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	cfg.apiserver = flag.Args()
	return cfg, showVersion
}

// run keeps the cluster up until a signal, the end of the lifeline or the
// failure of any part. Only the last is an error.
func run(cfg config) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		holdLifeline(os.Stdin)
		stop()
	}()

	go returnMemory(ctx)

	g, parts := errgroup.WithContext(ctx)
	g.Go(func() error { return serve(parts, cfg, g) })
	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }()

	var err error
	select {
	case err = <-ended:
	case <-parts.Done():
		select {
		case err = <-ended:
		case <-time.After(stopGrace):
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// memoryPeriod is how often unused memory goes back to the system. Go collects
// garbage at least as often even in a program that does nothing.
const memoryPeriod = 2 * time.Minute

// returnMemory gives back what a burst of work leaves behind. A start or a set
// of custom resource definitions needs several times the memory that a cluster
// at rest does, and a stricter garbage collector would make both take longer.
func returnMemory(ctx context.Context) {
	tick := time.NewTicker(memoryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			debug.FreeOSMemory()
		case <-ctx.Done():
			return
		}
	}
}

// serve starts the parts in the order in which they need each other, each as
// its own member of g.
func serve(ctx context.Context, cfg config, g *errgroup.Group) error {
	etcd, err := startEtcd(ctx, cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	g.Go(func() error { return watchEtcd(ctx, etcd) })

	listener, err := inheritedListener(cfg.listenerFD)
	if err != nil {
		return fmt.Errorf("take over the listener: %w", err)
	}
	g.Go(func() error {
		if err := serveAPI(ctx, cfg.apiserver, listener); err != nil {
			return fmt.Errorf("run kube-apiserver: %w", err)
		}
		return endedEarly(ctx, "kube-apiserver")
	})

	base, err := clientcmd.BuildConfigFromFlags("", cfg.kubeconfig)
	if err != nil {
		return fmt.Errorf("read the controllers' kubeconfig: %w", err)
	}
	if err := waitReady(ctx, base); err != nil {
		return err
	}
	g.Go(func() error { return runControllers(ctx, cfg, base) })
	g.Go(func() error { return runScheduler(ctx, base) })
	return nil
}

// inheritedListener returns the listener that the supervisor opened, so that
// no other program can take the port in between, or nil if there is none.
func inheritedListener(fd uint) (net.Listener, error) {
	if fd == 0 {
		return nil, nil
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	return net.FileListener(file)
}

// endedEarly turns the quiet end of a part into an error unless the whole
// cluster is ending.
func endedEarly(ctx context.Context, part string) error {
	if ctx.Err() != nil {
		return nil
	}
	return errors.New(part + " ended by itself")
}

// identity returns the configuration of one part, which acts as the user that
// a real cluster would show in its audit log.
func identity(base *rest.Config, agent, user string) *rest.Config {
	cfg := rest.CopyConfig(base)
	cfg.UserAgent = agent + "/" + version.Get().GitVersion
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	cfg.QPS, cfg.Burst = 100, 200
	return cfg
}
