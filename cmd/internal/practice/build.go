package practice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	goVersion, err := b.goVersion(ctx)
	if err != nil {
		return nil, err
	}
	b.hash, err = sourceHash(source, goVersion)
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
	most, err := b.countPackages(ctx, progress)
	if err != nil {
		return err
	}
	if err := b.compile(ctx, tmp, most, progress); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	say(progress, "built in %s, kept in %s", seconds(begun), dir)
	return dropUnused(cache, time.Now())
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

// unusedAfter is how long a build is kept that no checkout uses any more.
const unusedAfter = 30 * 24 * time.Hour

// buildDir is the form of a build's folder in the cache.
var buildDir = regexp.MustCompile(`^v[0-9].*-[0-9a-f]{16}$`)

// dropUnused removes builds that nobody has used for a long time; each takes
// some 200 MB. [built] marks the ones it hands out.
func dropUnused(cache string, now time.Time) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !buildDir.MatchString(e.Name()) || now.Sub(info.ModTime()) < unusedAfter {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) packages() []string { return []string{"./" + controlPlaneName, kubectlPackage} }

// countPackages returns how many packages the programs have: the most that a
// build can have to compile. It fetches the modules that are not there yet.
func (b *build) countPackages(ctx context.Context, progress io.Writer) (int64, error) {
	cmd := b.command(ctx, append([]string{"list", "-mod=readonly", "-deps"}, b.packages()...)...)
	var seen, said goOutput
	cmd.Stdout, cmd.Stderr = &seen, &said
	err := watch(ctx, cmd, func(elapsed time.Duration) {
		say(progress, "%d modules fetched, %s so far", said.modules.Load(), elapsed)
	})
	if err != nil {
		return 0, fmt.Errorf("list the control plane's packages: %w\n%s", err, said.other())
	}
	return seen.packages.Load(), nil
}

// compile runs go build, which names each package that it compiles.
//
// -trimpath is left out on purpose: with it no package would be shared with
// the rest of the project's builds in Go's cache.
func (b *build) compile(ctx context.Context, out string, most int64, progress io.Writer) error {
	args := []string{"build", "-mod=readonly", "-buildvcs=false", "-v", "-ldflags", b.ldflags(), "-o", out + string(filepath.Separator)}
	cmd := b.command(ctx, append(args, b.packages()...)...)
	var said goOutput
	cmd.Stderr = &said
	err := watch(ctx, cmd, func(elapsed time.Duration) {
		say(progress, "%d of at most %d packages compiled, %s so far", said.packages.Load(), most, elapsed)
	})
	if err != nil {
		return fmt.Errorf("build the control plane: %w\n%s", err, said.other())
	}
	return nil
}

// watch runs a command and reports every few seconds until it ends.
func watch(ctx context.Context, cmd *exec.Cmd, report func(elapsed time.Duration)) error {
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(buildReport)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			report(seconds(begun))
		case err := <-done:
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
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

// goVersion names the Go release that builds the module.
func (b *build) goVersion(ctx context.Context) (string, error) {
	out, err := b.command(ctx, "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("ask Go for its version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// goOutput counts what the go command says it did and keeps the rest, which is
// what went wrong. It is safe to read the counts while the command runs.
type goOutput struct {
	packages, modules atomic.Int64
	partial           []byte // of a line
	rest              []string
}

// maxRest is how many lines of a failed build are worth reading.
const maxRest = 40

func (o *goOutput) Write(p []byte) (int, error) {
	o.partial = append(o.partial, p...)
	for {
		line, after, whole := bytes.Cut(o.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		o.line(string(line))
		o.partial = after
	}
}

func (o *goOutput) line(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		o.modules.Add(1)
	case line != "" && !strings.ContainsAny(line, " \t#"): // a package path
		o.packages.Add(1)
	case len(o.rest) < maxRest:
		o.rest = append(o.rest, line)
	}
}

// other returns what was about neither a package nor a module, once the command
// has ended.
func (o *goOutput) other() string {
	if len(o.partial) > 0 {
		o.line(string(o.partial))
		o.partial = nil
	}
	return strings.Join(o.rest, "\n")
}
