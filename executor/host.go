package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// outputLimit bounds what is kept of each stream of a local program.
const outputLimit = 1 << 20

// killAfter is how long a program that was told to stop may take.
const killAfter = 5 * time.Second

// host is the machine and the person at hand, for one step.
type host struct {
	runner *runner
	step   *runbook.Step
}

// Progress shows what is being waited for.
func (h *host) Progress(text string) {
	h.runner.event(Event{Progress: &StepProgress{Step: h.step.ID, Text: text}})
}

// Confirm asks whether the person has followed the instructions.
func (h *host) Confirm(ctx context.Context, question string) error {
	return h.runner.ask(ctx, Question{Step: h.step, Text: question, Manual: true})
}

// Command runs a local program. It has its own process group on no account: a
// Ctrl-C at the terminal reaches it too, and ends it as it would by hand.
func (h *host) Command(ctx context.Context, cmd step.Command) (*step.CommandResult, error) {
	if len(cmd.Args) == 0 {
		return nil, errors.New("no program to run")
	}
	env := append(os.Environ(), cmd.Env...)
	if cluster := h.runner.job.Clusters[cmd.Role]; cluster != nil {
		dir, err := os.MkdirTemp("", "rutter-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for the kubeconfig: %w", err)
		}
		defer os.RemoveAll(dir)
		path, err := cluster.Kubeconfig(dir)
		if err != nil {
			return nil, fmt.Errorf("hand over the kubeconfig of %s: %w", cmd.Role, err)
		}
		env = append(env, "KUBECONFIG="+path)
	}
	c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
	c.Env = env
	c.Stdin = strings.NewReader(cmd.Stdin)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = killAfter
	var stdout, stderr bounded
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("run %s: %w", cmd.Args[0], err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("run %s: %w", cmd.Args[0], context.Cause(ctx))
	}
	return &step.CommandResult{ExitCode: c.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String(),
		Truncated: stdout.dropped || stderr.dropped}, nil
}

// bounded keeps the first bytes written to it, up to outputLimit.
type bounded struct {
	bytes.Buffer
	dropped bool
}

// Write never fails, so that a program that prints much is not ended by it.
func (b *bounded) Write(p []byte) (int, error) {
	if room := outputLimit - b.Len(); len(p) > room {
		b.dropped = true
		b.Buffer.Write(p[:room])
	} else {
		b.Buffer.Write(p)
	}
	return len(p), nil
}
