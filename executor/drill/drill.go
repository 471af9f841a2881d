// Package drill proves runbooks on practice clusters: it makes the trouble that
// a drill describes, runs the runbook, and compares how it ended with what the
// drill expects. Afterwards the clusters are as they were.
package drill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/executor"
	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Arena is a practice cluster: one that may be changed at will and put back.
type Arena interface {
	executor.Cluster
	// Mark remembers what is there; Restore removes all that came since,
	// whatever stands in the way.
	Mark(ctx context.Context) (restore func(context.Context) error, err error)
}

// Config says where drills take place.
type Config struct {
	// Arenas and Contexts are by role.
	Arenas   map[string]Arena
	Contexts map[string]string
	// Catalogue is where the custom resources of the drills are found.
	Catalogue fs.FS
	// CRDs, if set, are installed in place of the drills' own sets.
	CRDs []*unstructured.Unstructured
	// Perform runs the job. By default that is the executor; the proof that
	// the page's commands do the same passes them here.
	Perform func(ctx context.Context, job *executor.Job, opt executor.Options) (*executor.Report, error)
	// Events is told what happens during the run, and Say what the drill is
	// doing. Both may be nil.
	Events func(executor.Event)
	Say    func(text string)
	// Before is called when the trouble is made, before the run; Inspect after
	// the run, before the clusters are put back. Both may be nil.
	Before  func(ctx context.Context, job *executor.Job) error
	Inspect func(ctx context.Context, job *executor.Job) error
	// Journal records the run; nil for none.
	Journal func(ctx context.Context, job *executor.Job) (executor.Journal, error)
	Now     func() time.Time
}

// Result is how a drill ended. Failures is empty if it ended as expected.
type Result struct {
	Drill    *runbook.Drill
	Report   *executor.Report
	Failures []string
	Took     time.Duration
}

// Run does one drill. The error is not nil if it could not be done; how it
// ended otherwise is in the result.
func Run(ctx context.Context, d *runbook.Drill, rb *runbook.Runbook, cfg Config) (res *Result, err error) {
	started := cfg.Now()
	for role, arena := range cfg.Arenas {
		restore, err := arena.Mark(ctx)
		if err != nil {
			return nil, fmt.Errorf("remember what is on %s: %w", role, err)
		}
		defer func() {
			cfg.say("putting " + role + " back as it was")
			// Also after an interrupt: the next drill finds a clean cluster.
			back, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			if rerr := restore(back); rerr != nil {
				err = errors.Join(err, fmt.Errorf("put %s back as it was: %w", role, rerr))
			}
		}()
	}
	s := &session{drill: d, runbook: rb, cfg: cfg, res: &Result{Drill: d}}
	if err := s.setUp(ctx); err != nil {
		return nil, fmt.Errorf("%s: set up: %w", d.Path, err)
	}
	if err := s.run(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Path, err)
	}
	s.res.Took = cfg.Now().Sub(started)
	return s.res, nil
}

func (c *Config) say(text string) {
	if c.Say != nil {
		c.Say(text)
	}
}

type session struct {
	drill   *runbook.Drill
	runbook *runbook.Runbook
	cfg     Config
	res     *Result
}

// job binds a runbook to the arenas of its roles.
func (s *session) job(rb *runbook.Runbook, inputs map[string]any) *executor.Job {
	job := &executor.Job{Runbook: rb, Inputs: inputs, Contexts: map[string]string{}, Clusters: map[string]executor.Cluster{}}
	for _, c := range rb.Clusters {
		if arena, ok := s.cfg.Arenas[c.Role]; ok {
			job.Clusters[c.Role], job.Contexts[c.Role] = arena, s.cfg.Contexts[c.Role]
		}
	}
	return job
}

func (s *session) setUp(ctx context.Context) error {
	for role := range s.drill.CRDs {
		if _, ok := s.cfg.Arenas[role]; !ok {
			return fmt.Errorf("there is no practice cluster for the role %s", role)
		}
		if err := s.install(ctx, role); err != nil {
			return err
		}
	}
	s.cfg.say("making the trouble: " + s.drill.Title)
	if len(s.drill.Setup) == 0 {
		return nil
	}
	rep, err := executor.Run(ctx, s.job(s.drill.SetupRunbook(), nil), executor.Options{ApproveAll: true, Journal: None{}, Now: s.cfg.Now})
	if err != nil {
		return err
	}
	if rep.Outcome != executor.OutcomeDone && rep.Outcome != executor.OutcomeNothing {
		return errors.New(rep.Why)
	}
	return nil
}

// run does the runbook and judges how it ended.
func (s *session) run(ctx context.Context) error {
	inputs, err := s.runbook.Resolve(s.drill.Inputs)
	if err != nil {
		return err
	}
	job := s.job(s.runbook, inputs)
	if s.cfg.Before != nil {
		if err := s.cfg.Before(ctx, job); err != nil {
			return err
		}
	}
	before, err := s.versions(ctx)
	if err != nil {
		return err
	}
	s.cfg.say("running " + s.runbook.Name)
	if s.res.Report, err = s.perform(ctx, job); err != nil {
		return err
	}
	s.judge(s.res.Report)
	after, err := s.versions(ctx)
	if err != nil {
		return err
	}
	s.untouched(before, after)
	if err := s.clusters(ctx); err != nil {
		return err
	}
	if s.cfg.Inspect != nil {
		return s.cfg.Inspect(ctx, job)
	}
	return nil
}

// perform asks the preflight and runs, as the command does.
func (s *session) perform(ctx context.Context, job *executor.Job) (*executor.Report, error) {
	check, err := executor.Preflight(ctx, job)
	if err != nil {
		return nil, err
	}
	if !check.OK() {
		return &executor.Report{Outcome: executor.OutcomeRefused, Why: strings.Join(check.Problems, "; ")}, nil
	}
	opt := executor.Options{Events: s.cfg.Events, Now: s.cfg.Now, Journal: None{},
		Ask: func(_ context.Context, q executor.Question) (bool, error) {
			return s.drill.Answers[q.Step.ID] != "decline", nil
		}}
	if s.cfg.Journal != nil {
		if opt.Journal, err = s.cfg.Journal(ctx, job); err != nil {
			return nil, err
		}
	}
	if s.cfg.Perform != nil {
		return s.cfg.Perform(ctx, job, opt)
	}
	return executor.Run(ctx, job, opt)
}

func (s *session) failf(format string, args ...any) {
	s.res.Failures = append(s.res.Failures, fmt.Sprintf(format, args...))
}

// judge compares the outcome and the findings.
func (s *session) judge(rep *executor.Report) {
	if string(rep.Outcome) != s.drill.Expect.Outcome {
		s.failf("the run ended as %q (%s), want %q", rep.Outcome, rep.Why, s.drill.Expect.Outcome)
	}
	for _, want := range s.drill.Expect.Findings {
		found := false
		for _, f := range rep.Findings() {
			found = found || f.Step == want.Step && f.Level == want.Level && strings.Contains(f.Message, want.Contains)
		}
		if !found {
			s.failf("no finding of step %s says %q (%s); the findings are %v", want.Step, want.Contains, want.Level, rep.Findings())
		}
	}
}

// versions reads the resourceVersions of what must stay untouched.
func (s *session) versions(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, u := range s.drill.Expect.Untouched {
		arena, ok := s.cfg.Arenas[u.Cluster]
		if !ok {
			return nil, fmt.Errorf("untouched: there is no practice cluster for the role %s", u.Cluster)
		}
		q := step.Query{Resource: u.Resource, Namespace: u.Namespace, Selector: u.Selector}
		if u.Name != "" {
			q.Fields = "metadata.name=" + u.Name
		}
		objs, err := arena.List(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("untouched %s: %w", u.Resource, err)
		}
		for _, o := range objs {
			out[u.Cluster+": "+step.RefOf(u.Resource, o).String()] = string(o.GetUID()) + "/" + o.GetResourceVersion()
		}
	}
	return out, nil
}

func (s *session) untouched(before, after map[string]string) {
	if len(s.drill.Expect.Untouched) > 0 && len(before) == 0 {
		s.failf("nothing was there that could have stayed untouched: check the names under untouched")
	}
	for what, version := range before {
		if after[what] != version {
			s.failf("%s should be untouched, and is not", what)
		}
	}
}

// clusters evaluates the conditions on the clusters.
func (s *session) clusters(ctx context.Context) error {
	for role, conds := range s.drill.Expect.Clusters {
		env, err := runbook.ClusterEnv(look{ctx, s.cfg.Arenas[role]}.call)
		if err != nil {
			return err
		}
		for _, c := range conds {
			p, err := env.Compile(c.Source, expr.Bool)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Pos, err)
			}
			v, err := p.Eval(ctx, expr.Vars{})
			if err != nil {
				s.failf("%s on %s: %s: %s", c.Pos, role, oneLine(c.Source), err)
			} else if v.V != true {
				s.failf("%s on %s: %s is not so", c.Pos, role, oneLine(c.Source))
			}
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
