package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/executor"
	"rutter/executor/drill"
	"rutter/executor/kube"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
)

type drillOptions struct {
	env        *Env
	base       *baseFlags
	runbook    string
	cases      []string
	clusters   []string
	kubeconfig string
	crds       string
	show       bool
	report     string
}

// newDrillCmd returns 'rutter drill'.
func newDrillCmd(env *Env, base *baseFlags, run func(context.Context, *drillOptions) error) *cobra.Command {
	opts := &drillOptions{env: env, base: base}
	cmd := &cobra.Command{
		Use:   "drill RUNBOOK",
		Short: "Prove a runbook on practice clusters",
		Long: `Drill does the drills of a runbook: each makes its trouble on practice clusters,
runs the runbook, compares how it ended with what it must end like, and puts the
clusters back as they were. The clusters are started for it and stopped after,
unless --kubeconfig and --cluster name others. Drills delete what came since they
began, so never name a cluster that is in use.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.runbook = args[0]
			return run(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringArrayVar(&opts.cases, "case", nil, "only the drill of this name (may be repeated)")
	cmd.Flags().StringArrayVar(&opts.clusters, "cluster", nil, "the practice cluster of a role, ROLE=CONTEXT (may be repeated)")
	cmd.Flags().StringVar(&opts.kubeconfig, "kubeconfig", "", "kubeconfig of clusters that may be changed at will")
	cmd.Flags().StringVar(&opts.crds, "crds", "", "folder of custom resource definitions to use instead of the drills' own")
	cmd.Flags().BoolVar(&opts.show, "show", false, "show the plan and the run")
	cmd.Flags().StringVar(&opts.report, "report", "", "file to write the record of the runs to, as Markdown")
	return cmd
}

// drillSet is a runbook and the drills to do on it.
type drillSet struct {
	runbook *runbook.Runbook
	drills  []*runbook.Drill
	base    *base
}

func (o *drillOptions) find() (*drillSet, error) {
	b, err := o.base.open()
	if err != nil {
		return nil, err
	}
	rb, err := o.env.find(b, o.runbook)
	if err != nil {
		return nil, err
	}
	catalogue := b.Runbooks
	if rb.Path == "" {
		// A file by itself: its drills stand beside it.
		catalogue = os.DirFS(filepath.Dir(o.env.abs(o.runbook)))
		b = &base{Root: b.Root, Runbooks: catalogue, Content: b.Content, Config: b.Config}
	}
	all, err := drillsOf(catalogue, rb, o.env)
	if err != nil {
		return nil, err
	}
	set := &drillSet{runbook: rb, base: b}
	var names []string
	for _, d := range all {
		name := caseOf(d, rb)
		names = append(names, name)
		if len(o.cases) == 0 || slices.Contains(o.cases, name) || slices.Contains(o.cases, d.Name) {
			set.drills = append(set.drills, d)
		}
	}
	if len(all) == 0 {
		return nil, usage(fmt.Errorf("%s has no drills\n\thint: write %s.CASE.drill.yaml beside it", rb.Name, rb.Name))
	}
	if len(set.drills) < max(len(o.cases), 1) {
		return nil, usage(fmt.Errorf("%s has no such drill\n\thint: its drills are %s", rb.Name, strings.Join(names, ", ")))
	}
	return set, nil
}

// caseOf is the part of a drill's name that tells it from the others.
func caseOf(d *runbook.Drill, rb *runbook.Runbook) string {
	return strings.TrimPrefix(d.Name, rb.Name+"-")
}

// drillsOf reads the drills of a runbook, in the order of their names.
func drillsOf(catalogue fs.FS, rb *runbook.Runbook, env *Env) ([]*runbook.Drill, error) {
	var list diag.List
	var drills []*runbook.Drill
	err := fs.WalkDir(catalogue, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, ".drill.yaml") || !strings.HasPrefix(e.Name(), rb.Name+".") {
			return err
		}
		text, err := fs.ReadFile(catalogue, name)
		if err != nil {
			return err
		}
		d, err := runbook.ParseDrill(diag.Source{Name: name, Text: string(text)}, env.Kinds)
		if problems, ok := diag.AsList(err); ok {
			list = append(list, problems...)
			return nil
		}
		if err != nil {
			return err
		}
		if d.Runbook == rb.Name {
			drills = append(drills, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return drills, usage(list.Err())
}

// arena is a practice cluster as drills want it.
type arena struct{ *kube.Cluster }

// Mark remembers what is there; the returned function removes all that came
// since.
func (a arena) Mark(ctx context.Context) (func(context.Context) error, error) {
	snapshot, err := a.Cluster.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return a.Cluster.RemoveSince(ctx, snapshot) }, nil
}

func runDrill(ctx context.Context, opts *drillOptions) (err error) {
	set, err := opts.find()
	if err != nil {
		return err
	}
	crds, err := readCRDs(opts.env, opts.crds)
	if err != nil {
		return usage(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer opts.env.Interrupts(cancel)()
	cfg := drill.Config{Catalogue: set.base.Runbooks, CRDs: crds, Now: opts.env.Now,
		Say: func(text string) { fmt.Fprintln(opts.env.Stderr, "    "+text) }}
	stop, err := opts.arenas(ctx, set.runbook, &cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return opts.all(ctx, set, cfg)
}

// readCRDs reads the definitions in the YAML files of a folder.
func readCRDs(env *Env, dir string) ([]*unstructured.Unstructured, error) {
	if dir == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(env.abs(dir), "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no YAML files in %s", dir)
	}
	var all []*unstructured.Unstructured
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		objs, err := drill.Manifests(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all = append(all, objs...)
	}
	return all, nil
}

// arenas binds the roles to practice clusters, started here unless others are
// named.
func (o *drillOptions) arenas(ctx context.Context, rb *runbook.Runbook, cfg *drill.Config) (stop func() error, err error) {
	contexts, err := pairs("--cluster", o.clusters)
	if err != nil {
		return nil, usage(err)
	}
	stop = func() error { return nil }
	conf := kube.Config{Version: Version, Stderr: o.env.Stderr}
	if o.kubeconfig == "" {
		names := []string{"a"}
		for i := 1; i < len(rb.Clusters); i++ {
			names = append(names, string(rune('a'+i)))
		}
		own, err := startOwned(ctx, o.env, names)
		if err != nil {
			return nil, err
		}
		conf.Kubeconfig, stop = own.state.Kubeconfig, own.stop
		for i, c := range rb.Clusters {
			if contexts[c.Role] == "" {
				contexts[c.Role] = names[i]
			}
		}
	} else {
		conf.Kubeconfig = o.env.abs(o.kubeconfig)
	}
	cfg.Arenas, cfg.Contexts = map[string]drill.Arena{}, contexts
	for _, c := range rb.Clusters {
		if contexts[c.Role] == "" {
			return nil, errors.Join(usage(fmt.Errorf("no practice cluster for the role %s\n\thint: add --cluster %s=CONTEXT", c.Role, c.Role)), stop())
		}
		conf.Context = contexts[c.Role]
		cluster, err := kube.New(conf)
		if err != nil {
			return nil, errors.Join(usage(err), stop())
		}
		cfg.Arenas[c.Role] = arena{cluster}
	}
	return stop, nil
}

// all does the drills one after the other and reports each.
func (o *drillOptions) all(ctx context.Context, set *drillSet, cfg drill.Config) error {
	out := style{o.env.Stdout, o.env.Color}
	failed := 0
	var ids []string
	for _, d := range set.drills {
		out.linef("%s  %s", out.paint(bold, d.Name), printable(d.Title))
		o.record(set.runbook, &cfg, &ids)
		res, err := drill.Run(ctx, d, set.runbook, cfg)
		if err != nil {
			return err
		}
		if len(res.Failures) == 0 {
			out.linef("  %s as expected: %s  (%s)", out.paint(green, "✓"), res.Report.Outcome, res.Took.Round(100*time.Millisecond))
			continue
		}
		failed++
		out.linef("  %s not as expected  (%s)", out.paint(red, "✗"), res.Took.Round(100*time.Millisecond))
		for _, f := range res.Failures {
			out.block("      ", red, f)
		}
	}
	if o.report != "" {
		if err := o.writeReport(ids); err != nil {
			return err
		}
	}
	if failed > 0 {
		return &codedError{exitFailed, fmt.Errorf("%d of %s not as expected", failed, count(len(set.drills), "drill"))}
	}
	return nil
}

// record makes the run of a drill show itself and be recorded, as asked.
func (o *drillOptions) record(rb *runbook.Runbook, cfg *drill.Config, ids *[]string) {
	if o.show {
		cfg.Events = newWatcher(o.env, rb).event
		cfg.Before = func(ctx context.Context, job *executor.Job) error {
			check, err := executor.Preflight(ctx, job)
			if err != nil {
				return err
			}
			out := style{o.env.Stdout, o.env.Color}
			out.identities(job.Runbook, check.Identities)
			plan, err := executor.NewPlan(ctx, job)
			if err != nil {
				return err
			}
			printPlan(out, plan)
			out.linef("")
			return nil
		}
	}
	if o.report != "" || o.show {
		cfg.Journal = func(ctx context.Context, job *executor.Job) (executor.Journal, error) {
			check, err := executor.Preflight(ctx, job)
			if err != nil {
				return nil, err
			}
			record, err := openRecord(o.env, job, check.Identities)
			if err != nil {
				return nil, err
			}
			*ids = append(*ids, record.ID())
			return record, nil
		}
	}
}

// writeReport writes what runs show prints of each run.
func (o *drillOptions) writeReport(ids []string) error {
	return writeFile(o.env.abs(o.report), func(w io.Writer) error {
		for _, id := range ids {
			if err := showRun(o.env, w, id); err != nil {
				return err
			}
		}
		return nil
	})
}
