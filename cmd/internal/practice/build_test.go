package practice

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// tinySource is a module of the right name and shape that builds in a second.
var tinySource = map[string]string{
	"go.mod": `module rutter/executor/practice

go 1.26

require k8s.io/kubernetes v1.2.3

replace k8s.io/kubernetes => ./kubernetes
`,
	"go.sum":                         "",
	"controlplane/main.go":           "package main\n\nfunc main() {}\n",
	"kubernetes/go.mod":              "module k8s.io/kubernetes\n\ngo 1.26\n",
	"kubernetes/cmd/kubectl/main.go": "package main\n\nfunc main() {}\n",
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// noEnv is an environment with nothing set.
func noEnv(string) string { return "" }

func buildOptions(t *testing.T, files map[string]string) Options {
	t.Helper()
	source := t.TempDir()
	writeTree(t, source, files)
	return Options{Source: source, CacheDir: t.TempDir(), Getenv: noEnv}
}

// leftovers returns what is in the cache besides the lock.
func leftovers(t *testing.T, cache string) []string {
	t.Helper()
	entries, err := os.ReadDir(cache)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestBuild(t *testing.T) {
	opts := buildOptions(t, tinySource)
	writeTree(t, opts.CacheDir, map[string]string{".build-killed/controlplane": "half"})
	outputs := make([]bytes.Buffer, 3)
	var wg sync.WaitGroup
	for i := range outputs {
		wg.Go(func() {
			b, err := Ensure(t.Context(), opts, &outputs[i])
			if err != nil {
				t.Errorf("Ensure: %v", err)
			}
			if b.Version != "v1.2.3" || !isProgram(b.ControlPlane) || !isProgram(b.Kubectl) {
				t.Errorf("Ensure: %+v", b)
			}
		})
	}
	wg.Wait()
	builds := 0
	for i := range outputs {
		builds += strings.Count(outputs[i].String(), "built in")
	}
	if builds != 1 {
		t.Errorf("%d builds, want 1", builds)
	}
	if names := leftovers(t, opts.CacheDir); len(names) != 1 || !buildDir.MatchString(names[0]) {
		t.Errorf("the cache holds %q, want one build", names)
	}

	writeTree(t, opts.Source, map[string]string{"controlplane/more.go": "package main\n"})
	if _, err := Ensure(t.Context(), opts, nil); err != nil {
		t.Fatal(err)
	}
	if names := leftovers(t, opts.CacheDir); len(names) != 2 {
		t.Errorf("after a change the cache holds %q, want two builds", names)
	}
	if err := dropUnused(opts.CacheDir, time.Now().Add(2*unusedAfter)); err != nil {
		t.Fatal(err)
	}
	if names := leftovers(t, opts.CacheDir); len(names) != 0 {
		t.Errorf("after a long time the cache holds %q", names)
	}
}

func TestFailedBuild(t *testing.T) {
	files := maps.Clone(tinySource)
	files["controlplane/main.go"] = "package main\n\nfunc main() { nonsense }\n"
	opts := buildOptions(t, files)
	_, err := Ensure(t.Context(), opts, nil)
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("Ensure: %v, want the compiler's error", err)
	}
	if names := leftovers(t, opts.CacheDir); len(names) != 0 {
		t.Errorf("the cache holds %q", names)
	}
}

func TestCancelledBuild(t *testing.T) {
	opts := buildOptions(t, tinySource)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err := Ensure(ctx, opts, writerFunc(func(p []byte) (int, error) {
		cancel(enough) // at the first line of progress
		return len(p), nil
	}))
	if !errors.Is(err, enough) {
		t.Errorf("Ensure: %v, want the reason", err)
	}
	if names := leftovers(t, opts.CacheDir); len(names) != 0 {
		t.Errorf("the cache holds %q", names)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestGoOutput(t *testing.T) {
	var o goOutput
	for _, part := range []string{"runt", "ime\nk8s.io/api/core/v1\n# k8s.io/x", "\nx.go:1:2: undefined: y\n", "go: downloading k8s.io/x v1\nlast one"} {
		o.Write([]byte(part))
	}
	if n, m := o.packages.Load(), o.modules.Load(); n != 2 || m != 1 {
		t.Errorf("%d packages and %d modules, want 2 and 1", n, m)
	}
	if got, want := o.other(), "# k8s.io/x\nx.go:1:2: undefined: y\nlast one"; got != want {
		t.Errorf("other: %q, want %q", got, want)
	}
}

func TestAssets(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Ensure(t.Context(), Options{Assets: dir}, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "lacks kube-controller-manager") {
		t.Errorf("Ensure: %v, want the name of what is missing", err)
	}

	// The environment may name such a folder for other tools: build then.
	opts := buildOptions(t, tinySource)
	opts.Getenv = func(name string) string {
		return map[string]string{"KUBEBUILDER_ASSETS": dir}[name]
	}
	var out bytes.Buffer
	b, err := Ensure(t.Context(), opts, &out)
	if err != nil || b.ControlPlane == "" || !strings.Contains(out.String(), "not using KUBEBUILDER_ASSETS") {
		t.Errorf("Ensure: %+v, %v, %q; want a build and the reason", b, err, &out)
	}

	if err := os.WriteFile(filepath.Join(dir, "kube-controller-manager"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err = Ensure(t.Context(), opts, nil)
	if err != nil || b.ControlPlane != "" || b.ControllerManager != filepath.Join(dir, "kube-controller-manager") || b.Scheduler != "" {
		t.Errorf("Ensure: %+v, %v; want the folder's programs", b, err)
	}
}

func TestFindSource(t *testing.T) {
	root := t.TempDir()
	writeTree(t, filepath.Join(root, "executor", "practice"), tinySource)
	deep := filepath.Join(root, "cmd", "deep")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(root, "executor", "practice")

	t.Chdir(deep)
	if got, err := findSource(Options{Getenv: noEnv}); err != nil || got != want {
		t.Errorf("from below: %q, %v; want %q", got, err, want)
	}
	t.Chdir(t.TempDir())
	if got, err := findSource(Options{Getenv: noEnv}); !errors.Is(err, ErrNoPrograms) {
		t.Errorf("from elsewhere: %q, %v; want ErrNoPrograms", got, err)
	}
	named := func(name string) string {
		return map[string]string{"RUTTER_PRACTICE_SRC": want}[name]
	}
	if got, err := findSource(Options{Getenv: named}); err != nil || got != want {
		t.Errorf("by the environment: %q, %v; want %q", got, err, want)
	}
	if got, err := findSource(Options{Source: root, Getenv: named}); err == nil || !strings.Contains(err.Error(), "does not hold the module") {
		t.Errorf("by a wrong option: %q, %v", got, err)
	}
}
