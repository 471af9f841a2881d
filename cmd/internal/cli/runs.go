package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rutter/executor/journal"
)

type runsOptions struct {
	env    *Env
	id     string
	output string
}

// newRunsCmd returns 'rutter runs' with its subcommands.
func newRunsCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Look at the records of runs",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRunsListCmd(env, runsList), newRunsShowCmd(env, runsShow))
	return cmd
}

func newRunsListCmd(env *Env, run func(context.Context, *runsOptions) error) *cobra.Command {
	opts := &runsOptions{env: env}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs, newest first",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	return cmd
}

func runsList(_ context.Context, opts *runsOptions) error {
	root, err := runsDir(opts.env)
	if err != nil {
		return err
	}
	runs, err := journal.List(root)
	if len(runs) == 0 && err == nil {
		opts.env.linef("no runs yet")
		return nil
	}
	w := tabwriter.NewWriter(opts.env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTATE\tSTARTED\tWRITES\tRUNBOOK\tCLUSTERS")
	for _, r := range runs {
		var clusters []string
		for role, c := range r.Start.Clusters {
			clusters = append(clusters, role+"="+c.Context)
		}
		slices.Sort(clusters)
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", r.Start.ID, r.State(), r.Started.Format(time.DateTime), len(r.Writes), printable(r.Start.Runbook),
			printable(strings.Join(clusters, ", ")))
	}
	return errors.Join(w.Flush(), err)
}

func newRunsShowCmd(env *Env, run func(context.Context, *runsOptions) error) *cobra.Command {
	opts := &runsOptions{env: env}
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show what a run did, and what was under way if it broke off",
		Long: `Show prints the record of a run as Markdown: the clusters, the findings, every
step with its commands, and every write with the word for how it ended. RUN is
an ID from the list, a part of one that is its beginning or end, or "last".`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.id = args[0]
			return run(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&opts.output, "output", "o", "md", "md, or json for the records as they are")
	return cmd
}

func runsShow(_ context.Context, opts *runsOptions) error {
	switch opts.output {
	case "md":
		return showRun(opts.env, opts.env.Stdout, opts.id)
	case "json":
		run, err := findRun(opts.env, opts.id)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(opts.env.Stdout)
		for _, rec := range run.Records {
			if err := enc.Encode(rec); err != nil {
				return err
			}
		}
		return nil
	}
	return usage(fmt.Errorf("--output %s: want md or json", opts.output))
}

func findRun(env *Env, id string) (*journal.Run, error) {
	root, err := runsDir(env)
	if err != nil {
		return nil, err
	}
	run, err := journal.Find(root, id)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, usage(fmt.Errorf("%w\n\thint: rutter runs list shows them all", err))
	}
	return run, err
}

// showRun writes the record of a run as Markdown.
func showRun(env *Env, w io.Writer, id string) error {
	run, err := findRun(env, id)
	if err != nil {
		return err
	}
	s := &shown{style: style{w: w}, run: run}
	s.head()
	s.findings()
	s.steps()
	s.writes()
	return nil
}

// shown prints one run.
type shown struct {
	style
	run *journal.Run
}

func (s *shown) head() {
	r := s.run
	s.linef("# %s: %s", printable(r.Start.Title), r.State())
	s.linef("")
	s.linef("- run: %s", r.Start.ID)
	s.linef("- runbook: %s (sha256 %.12s…), Rutter %s", printable(r.Start.Runbook), r.Start.Digest, r.Start.Version)
	s.linef("- started: %s, last record %s later", r.Started.Format(time.RFC3339), r.Last.Sub(r.Started).Round(time.Millisecond))
	for _, role := range sortedNames(r.Start.Clusters) {
		c := r.Start.Clusters[role]
		s.linef("- %s: context %s, %s, Kubernetes %s, user %s, uid %s", role, printable(c.Context), printable(c.Server), printable(c.Version), printable(c.User), c.UID)
	}
	for _, name := range sortedNames(r.Start.Inputs) {
		s.linef("- input %s: %v", name, printable(fmt.Sprint(r.Start.Inputs[name])))
	}
	if r.End != nil && r.End.Why != "" {
		s.linef("- why: %s", printable(oneLine(r.End.Why)))
	}
	if r.End == nil && !r.Alive {
		s.linef("- the process ended without a word; what it had under way is listed below")
	}
	if r.Torn {
		s.linef("- the last line of the record was cut short and is left out")
	}
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *shown) findings() {
	s.linef("\n## Findings\n")
	found := false
	for _, rec := range s.run.Records {
		if rec.StepEnd == nil {
			continue
		}
		for _, f := range rec.StepEnd.Findings {
			found = true
			s.linef("- **%s** (%s): %s", f.Level, rec.StepEnd.ID, printable(oneLine(f.Message)))
			if f.Fix != "" {
				s.linef("  - %s", printable(oneLine(f.Fix)))
			}
		}
	}
	if !found {
		s.linef("None.")
	}
}

// steps prints the steps in order, those that did not end last.
func (s *shown) steps() {
	s.linef("\n## Steps")
	open := map[string]string{}
	var order []string
	for _, rec := range s.run.Records {
		switch {
		case rec.Step != nil:
			open[rec.Step.ID] = rec.Step.Title
			order = append(order, rec.Step.ID)
		case rec.StepEnd != nil:
			s.step(rec.StepEnd, open[rec.StepEnd.ID])
			delete(open, rec.StepEnd.ID)
		}
	}
	for _, id := range order {
		if title, ok := open[id]; ok {
			s.linef("\n### %s: under way\n\n%s", id, printable(title))
		}
	}
}

func (s *shown) step(e *journal.StepEnd, title string) {
	s.linef("\n### %s: %s (%.1f s)\n", e.ID, e.Status, e.Seconds)
	if title != "" && title != e.ID {
		s.linef("%s\n", printable(title))
	}
	for _, text := range []string{e.Said, e.Why} {
		if text != "" {
			s.linef("%s\n", printable(text))
		}
	}
	if e.Commands != "" {
		s.linef("```sh\n%s\n```", printable(e.Commands))
	}
}

func (s *shown) writes() {
	s.linef("\n## Writes\n")
	if len(s.run.Writes) == 0 {
		s.linef("None: no object was changed.")
	}
	for _, w := range s.run.Writes {
		line := fmt.Sprintf("%d. %s %s on %s, by step %s: **%s**", w.Intent.Write, w.Intent.Op, w.Intent.Object(), w.Intent.Role, w.Intent.Step, w.State)
		if w.Outcome.Error != "" {
			line += " (" + oneLine(w.Outcome.Error) + ")"
		}
		s.linef("%s", printable(line))
	}
}
