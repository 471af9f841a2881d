package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"rutter/executor"
	"rutter/runbooks/step"
)

type planOptions struct {
	env *Env
	jobFlags
}

// newPlanCmd returns 'rutter plan'.
func newPlanCmd(env *Env, base *baseFlags, run func(context.Context, *planOptions) error) *cobra.Command {
	opts := &planOptions{env: env, jobFlags: jobFlags{env: env, base: base}}
	cmd := &cobra.Command{
		Use:   "plan RUNBOOK",
		Short: "Show what a runbook would change, and change nothing",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.runbook = args[0]
			return run(cmd.Context(), opts)
		},
	}
	opts.add(cmd)
	return cmd
}

func runPlan(ctx context.Context, opts *planOptions) error {
	job, err := opts.job()
	if err != nil {
		return err
	}
	if _, err := preflight(ctx, opts.env, job, false); err != nil {
		return err
	}
	plan, err := executor.NewPlan(ctx, job)
	if err != nil {
		return err
	}
	printPlan(style{opts.env.Stdout, opts.env.Color}, plan)
	return nil
}

func printPlan(out style, plan *executor.Plan) {
	out.linef("")
	out.linef("%s", out.paint(bold, "Plan of "+plan.Job.Runbook.Name))
	for i := range plan.Steps {
		printPlanned(out, &plan.Steps[i])
	}
	out.linef("")
	out.linef("%s", out.paint(bold, plan.Summary()+"; nothing was changed yet"))
}

func printPlanned(out style, p *executor.PlannedStep) {
	indent := strings.Repeat("  ", p.Depth)
	if p.Step.Phase != "" {
		out.linef("\n%s", out.paint(bold, p.Step.Phase))
	}
	out.linef("%s%s %s  %s", indent, out.paint(effectColor(p.Step.Effect()), "•"), out.paint(bold, p.Step.Title), verdict(out, p))
	if p.Verdict == executor.WouldSkip || p.Verdict == executor.NotReached || p.Verdict == executor.OnlyRescue {
		return
	}
	indent += "    "
	out.findings(indent, p.Findings)
	for _, c := range p.Changes {
		note := ""
		if c.Note != "" {
			note = "  (" + printable(c.Note) + ")"
		}
		out.linef("%s%s %s%s", indent, out.paint(opColor(c.Op), opSign(c.Op)), printable(c.Object.String()), note)
		if diff := executor.Diff(c); diff != "" {
			for _, line := range strings.Split(strings.TrimRight(diff, "\n"), "\n") {
				out.linef("%s    %s", indent, out.paint(diffColor(line), line))
			}
		}
	}
}

func verdict(out style, p *executor.PlannedStep) string {
	s := string(p.Verdict)
	switch p.Verdict {
	case executor.Would, executor.Idle:
		if p.Said != "" {
			s = oneLine(p.Said)
		}
	default:
		if p.Why != "" {
			s += ": " + oneLine(p.Why)
		}
	}
	code := dim
	if p.Verdict == executor.WouldFail || p.Verdict == executor.CouldNotAsk {
		code = red
	}
	return out.paint(code, s)
}

func opSign(op step.Op) string {
	return map[step.Op]string{step.OpCreate: "+", step.OpUpdate: "~", step.OpDelete: "-"}[op]
}

func opColor(op step.Op) string {
	return map[step.Op]string{step.OpCreate: green, step.OpUpdate: yellow, step.OpDelete: red}[op]
}

func diffColor(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return blue
	}
	return dim
}
