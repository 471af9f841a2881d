package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rutter/executor"
)

type runOptions struct {
	env *Env
	jobFlags
	yes     bool
	approve []string
}

// newRunCmd returns 'rutter run'.
func newRunCmd(env *Env, base *baseFlags, run func(context.Context, *runOptions) error) *cobra.Command {
	opts := &runOptions{env: env, jobFlags: jobFlags{env: env, base: base}}
	cmd := &cobra.Command{
		Use:   "run RUNBOOK",
		Short: "Run a runbook on live clusters, step by step",
		Long: `Run asks the clusters who they are and what you may do there, then does the
steps. Before a step that asks for approval it waits for your yes; --yes gives
it for all of them, --approve STEP for one. Without a terminal, what is not
approved is declined.

Exit codes: 0 done, 1 a step failed, 2 wrong usage or an invalid runbook,
3 refused before the first step, 4 declined, 130 interrupted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.runbook = args[0]
			return run(cmd.Context(), opts)
		},
	}
	opts.add(cmd)
	cmd.Flags().BoolVarP(&opts.yes, "yes", "y", false, "approve every step")
	cmd.Flags().StringArrayVar(&opts.approve, "approve", nil, "approve the step with this id (may be repeated)")
	return cmd
}

func runRun(ctx context.Context, opts *runOptions) error {
	job, err := opts.job()
	if err != nil {
		return err
	}
	approve, err := approvals(job, opts.approve)
	if err != nil {
		return err
	}
	check, err := preflight(ctx, opts.env, job, false)
	if err != nil {
		return err
	}
	plan, err := executor.NewPlan(ctx, job)
	if err != nil {
		return err
	}
	record, err := openRecord(opts.env, job, check.Identities)
	if err != nil {
		return err
	}
	opts.env.linef("plan     %s; rutter plan shows more", plan.Summary())
	opts.env.linef("run      %s\n", record.ID())
	rep, err := opts.run(ctx, job, approve, record)
	if err != nil {
		return fmt.Errorf("the run stopped because it could not be recorded: %w", err)
	}
	return conclude(opts.env, job, record.ID(), rep)
}

// linef writes a line to stdout.
func (e *Env) linef(format string, args ...any) { fmt.Fprintf(e.Stdout, format+"\n", args...) }

// approvals reads --approve, whose values are ids of steps.
func approvals(job *executor.Job, ids []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, id := range ids {
		if job.Runbook.Step(id) == nil {
			return nil, usage(fmt.Errorf("--approve %s: %s has no such step", id, job.Runbook.Name))
		}
		out[id] = true
	}
	return out, nil
}

// run does the job. The first signal ends it in good order, the second at once.
func (o *runOptions) run(ctx context.Context, job *executor.Job, approve map[string]bool, journal executor.Journal) (*executor.Report, error) {
	hard, stop := context.WithCancel(ctx)
	defer stop()
	soft, interrupt := context.WithCancel(ctx)
	defer interrupt()
	signals := 0
	defer o.env.Interrupts(func() {
		if signals++; signals > 1 {
			stop()
		}
		interrupt()
	})()
	opt := executor.Options{Interrupt: soft, Journal: journal, ApproveAll: o.yes, Approve: approve, Now: o.env.Now,
		Events: newWatcher(o.env, job.Runbook).event}
	if o.env.Terminal {
		opt.Ask = newAsker(o.env).ask
	}
	return executor.Run(hard, job, opt)
}

// conclude prints how a run ended and turns that into an exit code.
func conclude(env *Env, job *executor.Job, id string, rep *executor.Report) error {
	out := style{env.Stdout, env.Color}
	out.linef("")
	elapsed := rep.Ended.Sub(rep.Started).Round(100 * 1e6)
	changed := count(rep.Writes, "write") + " in " + elapsed.String()
	code, next, color := 0, "rutter runs show "+id, green
	switch rep.Outcome {
	case executor.OutcomeNothing:
		changed = "no object was changed, in " + elapsed.String()
	case executor.OutcomeFailed:
		code, color = exitFailed, red
	case executor.OutcomeDeclined:
		code, color = exitDeclined, yellow
	case executor.OutcomeInterrupted:
		code, color = exitInterrupted, yellow
	}
	out.linef("%s %s (%s)", out.paint(color, string(rep.Outcome)+":"), job.Runbook.Name, changed)
	if rep.Why != "" {
		out.block("    ", color, rep.Why)
	}
	for _, l := range rep.Leftover {
		out.linef("    not known: %s", printable(l))
	}
	out.linef("record: %s", next)
	if code == 0 {
		return nil
	}
	return &codedError{code, nil}
}

// asker puts questions on the terminal.
type asker struct {
	env   *Env
	lines *bufio.Reader
}

func newAsker(env *Env) *asker { return &asker{env, bufio.NewReader(env.Stdin)} }

// ask shows what a step would change and waits for yes or no. Anything else is
// asked again; the end of the input is no.
func (a *asker) ask(ctx context.Context, q executor.Question) (bool, error) {
	out := style{a.env.Stdout, a.env.Color}
	for i, c := range q.Changes {
		if i == 20 {
			out.linef("      … and %d more", len(q.Changes)-i)
			break
		}
		out.linef("      %s %s", out.paint(opColor(c.Op), opSign(c.Op)), printable(c.Object.String()))
	}
	for ctx.Err() == nil {
		fmt.Fprintf(a.env.Stdout, "    %s [yes/no] ", out.paint(bold, printable(oneLine(q.Text))))
		answer, err := a.read(ctx)
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, context.Cause(ctx)
}

// read returns a line, or the end of ctx. The read itself cannot be ended, so
// it may outlive the question; the process ends with it.
func (a *asker) read(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		line, err := a.lines.ReadString('\n')
		got <- result{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// stateDir is where journals are kept: below XDG_STATE_HOME, else the home.
func stateDir(env *Env) (string, error) {
	if dir := env.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "rutter"), nil
	}
	home := env.Getenv("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", fmt.Errorf("find a place for the record of the run: %w; set XDG_STATE_HOME", err)
		}
	}
	return filepath.Join(home, ".local", "state", "rutter"), nil
}
