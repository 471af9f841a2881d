package practice

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// build is one way to make the programs from their module.
type build struct {
	source  string
	goTool  string
	version string // of Kubernetes
	hash    string // of all that goes in
}

const buildReport = 5 * time.Second

// kubectlPackage is built as it is, with the versions that the module pins.
const kubectlPackage = "k8s.io/kubernetes/cmd/kubectl"

func newBuild(ctx context.Context, source string) (*build, error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return nil, fmt.Errorf("build the control plane: Go is not installed\n%w", ErrNoPrograms)
	}
	b := &build{source: source, goTool: goTool}
	if b.version, err = kubernetesVersion(source); err != nil {
		return nil, err
	}
	goVersion, err := b.output(ctx, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	b.hash, err = sourceHash(source, strings.TrimSpace(goVersion))
	return b, err
}

// run builds into a folder of its own beside dir and then gives it that name,
// so that dir is there as a whole or not at all. The caller holds the lock.
func (b *build) run(ctx context.Context, cache, dir string, progress io.Writer) (err error) {
	const unfinished = ".build-"
	if err := removeAll(cache, unfinished); err != nil { // of builds that were killed
		return err
	}
	tmp, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
		}
	}()
	begun := time.Now()
	say(progress, "building the control plane of Kubernetes %s; this takes about ten minutes, once", b.version)
	most, err := b.countPackages(ctx)
	if err != nil {
		return err
	}
	if err := b.compile(ctx, tmp, most, begun, progress); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	say(progress, "built in %s, kept in %s", seconds(begun), dir)
	return nil
}

// removeAll removes what in dir begins with prefix.
func removeAll(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *build) packages() []string { return []string{"./" + controlPlaneName, kubectlPackage} }

// countPackages returns how many packages the programs have: the most that a
// build can have to compile.
func (b *build) countPackages(ctx context.Context) (int, error) {
	list, err := b.output(ctx, append([]string{"list", "-mod=readonly", "-deps"}, b.packages()...)...)
	if err != nil {
		return 0, err
	}
	return strings.Count(list, "\n"), nil
}

// compile runs go build, which names each package that it compiles.
//
// -trimpath is left out on purpose: with it no package would be shared with
// the rest of the project's builds in Go's cache.
func (b *build) compile(ctx context.Context, out string, most int, begun time.Time, progress io.Writer) error {
	args := []string{"build", "-mod=readonly", "-buildvcs=false", "-v", "-ldflags", b.ldflags(), "-o", out + string(filepath.Separator)}
	cmd := b.command(ctx, append(args, b.packages()...)...)
	seen := &buildOutput{}
	cmd.Stderr = seen
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build the control plane: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(buildReport)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			say(progress, "%d of at most %d packages compiled, %s so far", seen.packages.Load(), most, seconds(begun))
		case err := <-done:
			if ctx.Err() != nil {
				return fmt.Errorf("build the control plane: %w", context.Cause(ctx))
			}
			if err != nil {
				return fmt.Errorf("build the control plane: %w\n%s", err, seen.other())
			}
			return nil
		}
	}
}

// ldflags leave out what only debuggers read and say which version this is, as
// Kubernetes' own build does.
func (b *build) ldflags() string {
	flags := []string{"-s", "-w"}
	parts := strings.SplitN(strings.TrimPrefix(b.version, "v"), ".", 3)
	if len(parts) != 3 {
		return strings.Join(flags, " ")
	}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range [][2]string{
			{"gitVersion", b.version}, {"gitMajor", parts[0]}, {"gitMinor", parts[1]}, {"gitTreeState", "clean"},
		} {
			flags = append(flags, "-X", pkg+"."+v[0]+"="+v[1])
		}
	}
	return strings.Join(flags, " ")
}

// command is a go command in the module's own folder, whatever workspace or
// vendoring the user's environment asks for.
func (b *build) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.goTool, args...)
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+b.source)
	separate(cmd, false)
	cmd.Cancel = func() error { // with the compilers that it started
		return terminate(Process{PID: cmd.Process.Pid})
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (b *build) output(ctx context.Context, args ...string) (string, error) {
	cmd := b.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], errors.Join(context.Cause(ctx), err), strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// buildOutput tells the names of compiled packages from the compiler's errors.
type buildOutput struct {
	packages atomic.Int64
	rest     bytes.Buffer // a last line that is not complete yet
	errors   []string
}

// maxErrors is how many lines of a failed build are worth reading.
const maxErrors = 40

func (o *buildOutput) Write(p []byte) (int, error) {
	o.rest.Write(p)
	for {
		line, err := o.rest.ReadString('\n')
		if err != nil {
			o.rest.WriteString(line)
			return len(p), nil
		}
		o.line(strings.TrimSuffix(line, "\n"))
	}
}

func (o *buildOutput) line(line string) {
	// A package path has no space; "go: downloading …" and errors do.
	if line != "" && !strings.ContainsAny(line, " \t#") {
		o.packages.Add(1)
		return
	}
	if !strings.HasPrefix(line, "go: downloading") && len(o.errors) < maxErrors {
		o.errors = append(o.errors, line)
	}
}

// other returns what was not about a package being compiled.
func (o *buildOutput) other() string {
	sc := bufio.NewScanner(&o.rest)
	for sc.Scan() {
		o.line(sc.Text())
	}
	return strings.Join(o.errors, "\n")
}
