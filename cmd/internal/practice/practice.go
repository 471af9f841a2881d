// Package practice starts, watches and stops practice clusters: real
// Kubernetes control planes on this machine, for drills, tests and for people
// who want to try a runbook before they need it.
//
// [Start] brings up one control plane per name in [Options] and returns a
// [State]: where the clusters are, the kubeconfig with one context per cluster,
// and how to stop them. [Ensure] finds or builds the programs that this takes.
//
// The package links no Kubernetes code. The control plane is a program of its
// own, built once from the module in executor/practice and kept in the user's
// cache. There are no nodes: pods are made and stay Pending.
package practice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options says which clusters to start and how. Only Clusters is required.
type Options struct {
	// Clusters names the clusters. A name is a DNS label and becomes the
	// name of the cluster's kubeconfig context.
	Clusters []string
	// Dir holds everything about the clusters that run and is removed when
	// they stop. Empty means [DefaultDir]. One directory holds one set of
	// clusters; a test passes its own.
	Dir string
	// Owned ties the clusters to this process: they end when it ends,
	// however it ends. Otherwise they run on until [Stop].
	Owned bool
	// AuditLog makes each API server record who did what, at the Metadata
	// level; see [Cluster.AuditLog].
	AuditLog bool
	// APIServerArgs are further flags for every kube-apiserver. They come
	// last and so override the ones chosen here.
	APIServerArgs []string
	// ReadyTimeout bounds the wait for the clusters; 0 means two minutes.
	ReadyTimeout time.Duration

	// Assets is a folder with ready etcd, kube-apiserver,
	// kube-controller-manager and kubectl programs, and perhaps
	// kube-scheduler. Empty means $KUBEBUILDER_ASSETS, then a build. Only
	// the built control plane ends as a whole when a part of it fails in a
	// cluster that nobody owns.
	Assets string
	// Source is the folder of the module rutter/executor/practice. Empty
	// means $RUTTER_PRACTICE_SRC, then a search upwards from the current
	// directory and from this program.
	Source string
	// CacheDir keeps what was built. Empty means rutter/practice in the
	// user's cache directory.
	CacheDir string

	// Progress gets a line now and then about what goes on; nil means none.
	Progress io.Writer
	// Getenv reads the environment; nil means [os.Getenv].
	Getenv func(string) string
}

const defaultReadyTimeout = 2 * time.Minute

// ErrRunning is wrapped by the error of [Start] when clusters already run in
// the directory.
var ErrRunning = errors.New("practice clusters are already running")

// clusterName keeps a cluster's name fit for a directory, a context and a URL.
var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (o Options) withDefaults() (Options, error) {
	if len(o.Clusters) == 0 {
		return o, errors.New("no practice cluster was named")
	}
	for i, name := range o.Clusters {
		if !clusterName.MatchString(name) {
			return o, fmt.Errorf("practice cluster %q: a name is made of a-z, 0-9 and -, and starts and ends with a letter or digit", name)
		}
		if slices.Contains(o.Clusters[:i], name) {
			return o, fmt.Errorf("practice cluster %q is named twice", name)
		}
	}
	if !o.Owned && runtime.GOOS != "linux" {
		return o, fmt.Errorf("practice clusters that run on by themselves need Linux, this is %s: keep the command in the foreground", runtime.GOOS)
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	o.Progress = lines(o.Progress)
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	var err error
	if o.Dir == "" {
		if o.Dir, err = defaultDir(o.Getenv); err != nil {
			return o, err
		}
	}
	o.Dir, err = filepath.Abs(o.Dir)
	return o, err
}

// DefaultDir returns where practice clusters are kept unless told otherwise:
// rutter/practice in $XDG_STATE_HOME or in the user's state directory.
func DefaultDir() (string, error) { return defaultDir(os.Getenv) }

func defaultDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rutter", "practice"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for practice clusters: %w", err)
	}
	return filepath.Join(home, ".local", "state", "rutter", "practice"), nil
}

// Start brings up the clusters and returns when each of them answers, has its
// default roles, and has the default service account in its default namespace.
// If one of them fails, or ctx ends, none is left and the error holds the last
// lines of the failed cluster's log.
//
// What a dead supervisor left in the directory is cleaned up first. Clusters
// that still run there are left alone; the error then wraps [ErrRunning].
func Start(ctx context.Context, opts Options) (*State, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	programs, err := Ensure(ctx, opts, opts.Progress)
	if err != nil {
		return nil, err
	}
	unlock, err := prepareDir(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer unlock()

	s := &State{
		Dir:        opts.Dir,
		Kubeconfig: filepath.Join(opts.Dir, kubeconfigName),
		Kubectl:    programs.Kubectl,
		opts:       opts,
		programs:   programs,
	}
	if err := s.start(ctx); err != nil {
		// The caller's context may be why the start failed.
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), killAfter+killWait)
		defer cancel()
		return nil, errors.Join(err, s.end(stopping))
	}
	return s, nil
}

// start launches the clusters one by one, so that each is on record before the
// next, and waits for all of them at once.
func (s *State) start(ctx context.Context) error {
	begun := time.Now()
	say(s.opts.Progress, "starting %s", strings.Join(s.opts.Clusters, ", "))
	self, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	self.Name = "supervisor"
	s.supervisor = &self // until the clusters are let go
	if err := s.save(); err != nil {
		return err
	}
	for _, name := range s.opts.Clusters {
		if err := s.launch(ctx, name); err != nil {
			return err
		}
	}
	ready, cancel := context.WithTimeoutCause(ctx, s.opts.ReadyTimeout,
		fmt.Errorf("not ready after %s", s.opts.ReadyTimeout))
	defer cancel()
	g, ready := errgroup.WithContext(ready)
	for i := range s.Clusters {
		g.Go(func() error { return s.await(ready, i, begun) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := s.writeKubeconfig(); err != nil {
		return err
	}
	if s.opts.Owned {
		return s.save()
	}
	// On record as independent first: the other way round, a supervisor that
	// dies in between would leave clusters that nobody believes in.
	s.supervisor = nil
	if err := s.save(); err != nil {
		return err
	}
	return s.letGo()
}
