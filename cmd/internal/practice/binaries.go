package practice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Binaries are the programs that clusters are made of: either ControlPlane, or
// the separate ones.
type Binaries struct {
	Version string // of Kubernetes; empty if only the cluster can tell
	Kubectl string

	ControlPlane string // etcd, API server, controllers and scheduler in one

	Etcd              string
	APIServer         string
	ControllerManager string
	Scheduler         string // may be empty: pods are not scheduled then
}

// Names of the programs that the module in executor/practice makes.
const (
	controlPlaneName = "controlplane"
	kubectlName      = "kubectl"
)

// sourceHelp says what to do when there is nothing to run and nothing to build.
const sourceHelp = `practice clusters need a control plane, and none was found. Either
  - run this inside a checkout of Rutter, or name its folder executor/practice in RUTTER_PRACTICE_SRC, with Go installed: it is built once; or
  - set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager and kubectl`

// ErrNoPrograms is wrapped by the error of [Ensure] when there are neither
// programs nor their sources.
var ErrNoPrograms = errors.New(sourceHelp)

// Ensure returns the programs that clusters need: the ones in a folder of ready
// programs, the ones built before, or else ones that it builds now, which takes
// about ten minutes the first time. Progress gets a line every few seconds.
func Ensure(ctx context.Context, opts Options, progress io.Writer) (Binaries, error) {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if progress == nil {
		progress = io.Discard
	}
	if opts.Assets != "" {
		return assets(opts.Assets)
	}
	if dir := opts.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		b, err := assets(dir)
		if err == nil {
			return b, nil
		}
		// The usual folders of this kind hold no controllers, and a
		// cluster without them is no practice.
		say(progress, "not using KUBEBUILDER_ASSETS: %v", err)
	}
	source, err := findSource(opts)
	if err != nil {
		return Binaries{}, err
	}
	return built(ctx, opts, source, progress)
}

// assets returns the programs in a folder of ready ones.
func assets(dir string) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	var b Binaries
	var missing []string
	for _, p := range []struct {
		name     string
		path     *string
		optional bool
	}{
		{"etcd", &b.Etcd, false},
		{"kube-apiserver", &b.APIServer, false},
		{"kube-controller-manager", &b.ControllerManager, false},
		{kubectlName, &b.Kubectl, false},
		{"kube-scheduler", &b.Scheduler, true},
	} {
		path := filepath.Join(dir, p.name)
		switch {
		case isProgram(path):
			*p.path = path
		case !p.optional:
			missing = append(missing, p.name)
		}
	}
	if len(missing) > 0 {
		return Binaries{}, fmt.Errorf("%s lacks %s", dir, strings.Join(missing, ", "))
	}
	return b, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// sourceMark tells the module's folder from any other.
const sourceMark = "module rutter/executor/practice"

// findSource returns the folder of the module to build.
func findSource(opts Options) (string, error) {
	for _, named := range []struct{ by, dir string }{
		{"the source option", opts.Source},
		{"RUTTER_PRACTICE_SRC", opts.Getenv("RUTTER_PRACTICE_SRC")},
	} {
		if named.dir == "" {
			continue
		}
		if !isSource(named.dir) {
			return "", fmt.Errorf("%s, named by %s, does not hold the module rutter/executor/practice", named.dir, named.by)
		}
		return filepath.Abs(named.dir)
	}
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, start := range starts {
		if dir, ok := searchUp(start); ok {
			return dir, nil
		}
	}
	return "", ErrNoPrograms
}

// searchUp looks for executor/practice in dir and in the folders above it.
func searchUp(dir string) (string, bool) {
	for {
		if source := filepath.Join(dir, "executor", "practice"); isSource(source) {
			return source, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

func isSource(dir string) bool {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(mod), sourceMark+"\n")
}

// built returns the programs from the cache, building them first if this very
// source was not built before.
func built(ctx context.Context, opts Options, source string, progress io.Writer) (Binaries, error) {
	cache, err := cacheDir(opts)
	if err != nil {
		return Binaries{}, err
	}
	b, err := newBuild(ctx, source)
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(cache, b.version+"-"+b.hash)
	found := Binaries{
		Version:      b.version,
		ControlPlane: filepath.Join(dir, controlPlaneName),
		Kubectl:      filepath.Join(dir, kubectlName),
	}
	ready := func() bool { return isProgram(found.ControlPlane) && isProgram(found.Kubectl) }
	if ready() {
		// The time of its last use; a cache that cannot be written is fine.
		now := time.Now()
		_ = os.Chtimes(dir, now, now)
		return found, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Binaries{}, err
	}
	unlock, err := lock(ctx, filepath.Join(cache, lockName), func() {
		say(progress, "waiting for another process that builds the control plane")
	})
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if ready() { // the other process built it
		return found, nil
	}
	return found, b.run(ctx, cache, dir, progress)
}

func cacheDir(opts Options) (string, error) {
	if opts.CacheDir != "" {
		return filepath.Abs(opts.CacheDir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for the built control plane: %w", err)
	}
	return filepath.Join(dir, "rutter", "practice"), nil
}

// kubernetesRequire is the line of go.mod that says which Kubernetes is built.
var kubernetesRequire = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes\s+(v\S+)`)

// kubernetesVersion reads from the module's go.mod what is built.
func kubernetesVersion(source string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", err
	}
	m := kubernetesRequire.FindSubmatch(mod)
	if m == nil {
		return "", fmt.Errorf("%s requires no k8s.io/kubernetes", filepath.Join(source, "go.mod"))
	}
	return string(m[1]), nil
}

// sourceHash names a build by all that goes into it: the pinned modules, the
// control plane's own files, the Go version and the platform.
func sourceHash(source, goVersion string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, goVersion, runtime.GOOS, runtime.GOARCH)
	add := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(source, path))
		fmt.Fprintf(h, "%s %x\n", filepath.ToSlash(path), sha256.Sum256(data))
		return err
	}
	for _, root := range []string{"go.mod", "go.sum", controlPlaneName} {
		if err := fs.WalkDir(os.DirFS(source), root, add); err != nil {
			return "", fmt.Errorf("read the control plane's sources: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
