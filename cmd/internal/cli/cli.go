// Package cli is the rutter command: it parses flags into options, calls the
// packages that do the work, and turns errors into exit codes. It alone joins
// the generator with its theme and the executor with a real cluster.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"rutter/runbooks/diag"
	"rutter/runbooks/step"
)

// Version is what rutter --version prints. A release sets it when linking.
var Version = "development"

// Env is the world outside: everything that a command reads or writes beside
// files and clusters.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Dir is the directory that relative paths start from.
	Dir    string
	Getenv func(string) string
	Now    func() time.Time
	// Terminal is set if a person sees Stdout and can answer on Stdin.
	Terminal bool
	// Color is set if Stdout may be coloured.
	Color bool
	// Kinds are the verbs of the language.
	Kinds []*step.Kind
	// Interrupts calls fn for every signal that asks the process to end, until
	// the returned function is called.
	Interrupts func(fn func()) (stop func())
}

// SystemEnv is the Env of this process.
func SystemEnv() *Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	return &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Dir: dir, Getenv: os.Getenv, Now: time.Now,
		Terminal:   terminal && term.IsTerminal(int(os.Stdin.Fd())),
		Color:      terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Kinds:      step.Builtin(),
		Interrupts: systemInterrupts,
	}
}

func systemInterrupts(fn func()) func() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				fn()
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}

// Exit codes, as the handbook lists them.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitDeclined    = 4
	exitInterrupted = 130
)

// codedError ends the command with a code. A nil err means that everything
// has been said already.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

// usage marks an error as the caller's: wrong flags, names or files.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &codedError{exitUsage, err}
}

// Main runs the command and returns its exit code.
func Main(env *Env, args []string) int {
	root := newRootCmd(env)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var coded *codedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		report(env, coded.err)
		return coded.code
	}
	report(env, err)
	return exitFailed
}

// report writes an error to stderr, in the words of whoever made it.
func report(env *Env, err error) {
	if err == nil {
		return
	}
	if list, ok := diag.AsList(err); ok {
		diag.Print(env.Stderr, list, nil)
		return
	}
	fmt.Fprintln(env.Stderr, "rutter: "+printable(err.Error()))
}

func newRootCmd(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "rutter",
		Short: "Runbooks for Kubernetes that can be read, carried offline, and run",
		Long: `Rutter keeps procedures for Kubernetes operators as YAML runbooks. One file is the
page a person reads, the run on live clusters, the permissions it needs, and the
drill that proves it.`,
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w\n\thint: %s --help lists the flags", err, cmd.CommandPath()))
	})
	kb := &baseFlags{env: env}
	root.PersistentFlags().StringVarP(&kb.dir, "dir", "C", "", "folder of a knowledge base (default: the one around the current folder, else the built-in one)")
	root.AddCommand(
		newListCmd(env, kb, runList),
		newCheckCmd(env, kb, runCheck),
		newSchemaCmd(env, runSchema),
		newBuildCmd(env, kb, runBuild),
		newBundleCmd(env, kb, runBundle),
		newVerifyCmd(env, runVerify),
		newPlanCmd(env, kb, runPlan),
		newRunCmd(env, kb, runRun),
		newRunsCmd(env),
		newDrillCmd(env, kb, runDrill),
		newPracticeCmd(env),
	)
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	return root
}

// wrapArgs makes wrong arguments a usage error, for a command and below.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage(fmt.Errorf("%w\n\thint: usage: %s", err, cmd.UseLine()))
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// printable returns text from elsewhere with control characters blanked, so
// that a cluster cannot steer the terminal. Line breaks and tabs stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}
