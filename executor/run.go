package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// DefaultReserve is the time that the finally steps have in any case.
const DefaultReserve = 2 * time.Minute

// Options say how a run is watched and answered.
type Options struct {
	// Interrupt ends the run: when it is done, waits stop, no further step
	// starts, and the finally steps run in their reserved time. Canceling the
	// context of Run ends those too.
	Interrupt context.Context
	// Events is told what happens, in order and one at a time. It may be nil.
	Events func(Event)
	// Ask puts a question to a person. If it is nil, everything that is not
	// approved beforehand is declined.
	Ask func(ctx context.Context, q Question) (bool, error)
	// ApproveAll answers every question with yes; Approve those of its steps.
	ApproveAll bool
	Approve    map[string]bool
	// Journal records the run.
	Journal Journal
	// Reserve is the time of the finally steps, DefaultReserve if 0.
	Reserve time.Duration
	// Now is the clock.
	Now func() time.Time
}

// Question is what a person is asked before a step.
type Question struct {
	Step *runbook.Step
	Text string
	// Manual is set if the answer is that the person has done it.
	Manual bool
	// Changes is what the step would do, as far as it is known.
	Changes []step.Change
}

// errDeclined means that a person said no.
var errDeclined = errors.New("declined")

// Run does the job and returns how it ended. The error is not nil only if the
// run could not be recorded; what happened until then is in the report. Run
// does no preflight: its caller has done one.
func Run(ctx context.Context, job *Job, opt Options) (*Report, error) {
	r := &runner{job: job, opt: opt, report: &Report{Outcome: OutcomeDone, Started: opt.Now()}}
	soft, cancel := merge(ctx, opt.Interrupt)
	defer cancel()
	timed, cancel := context.WithTimeoutCause(soft, job.Runbook.Deadline, fmt.Errorf("the run's deadline of %s is over", job.Runbook.Deadline))
	defer cancel()

	vars := job.vars()
	err := r.steps(timed, job.Runbook.Steps, vars, 0)
	r.conclude(ctx, soft, err)
	if len(job.Runbook.Finally) > 0 {
		r.finally(ctx, vars, soft.Err() != nil)
	}
	r.report.Ended = opt.Now()
	if r.report.Outcome == OutcomeDone && r.report.Writes == 0 {
		r.report.Outcome = OutcomeNothing
	}
	if jerr := opt.Journal.End(r.report); jerr != nil && r.journal == nil {
		r.journal = jerr
	}
	return r.report, r.journal
}

// merge returns a context that ends with either of two.
func merge(ctx, other context.Context) (context.Context, context.CancelFunc) {
	merged, cancel := context.WithCancelCause(ctx)
	if other == nil {
		return merged, func() { cancel(nil) }
	}
	stop := context.AfterFunc(other, func() { cancel(errInterrupted) })
	return merged, func() { stop(); cancel(nil) }
}

// errInterrupted is why waits end after a signal.
var errInterrupted = errors.New("interrupted")

type runner struct {
	job     *Job
	telling sync.Mutex // events come from all that a step does at once
	opt     Options
	report  *Report
	journal error // the first failure to record
}

// stepError is a failure that ends a run, and the step it comes from.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return "step " + e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func (r *runner) event(e Event) {
	r.telling.Lock()
	defer r.telling.Unlock()
	if r.opt.Events != nil {
		e.Time = r.opt.Now()
		r.opt.Events(e)
	}
}

// conclude turns the error of the steps into the outcome.
func (r *runner) conclude(hard, soft context.Context, err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, errDeclined):
		r.report.Outcome = OutcomeDeclined
	case hard.Err() != nil || soft.Err() != nil:
		r.report.Outcome = OutcomeInterrupted
	default:
		r.report.Outcome = OutcomeFailed
	}
	r.report.Why = err.Error()
}

// finally runs the steps at the end in time of their own, so that neither the
// deadline nor a signal takes it from them.
func (r *runner) finally(ctx context.Context, vars expr.Vars, interrupted bool) {
	reserve := r.opt.Reserve
	if reserve == 0 {
		reserve = DefaultReserve
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reserve, fmt.Errorf("the %s for the steps at the end are over", reserve))
	defer cancel()
	r.event(Event{Finally: &FinallyStart{Interrupted: interrupted, Reserved: reserve}})
	for _, s := range r.job.Runbook.Steps {
		for _, o := range s.Outputs {
			if name := "steps." + s.ID + "." + o.Name; vars[name] == nil {
				vars[name] = expr.Unknown
			}
		}
	}
	for _, s := range r.job.Runbook.Finally {
		if missing := unset(s, vars); missing != "" {
			if r.end(StepReport{Step: s, Status: Skipped, Why: missing + " was never set"}, nil) != nil {
				return // nothing can be recorded any more
			}
			continue
		}
		// The others are still done if one fails: each puts its own thing right.
		if err := r.step(ctx, s, vars, 0); err != nil && r.report.Outcome == OutcomeDone {
			r.report.Outcome, r.report.Why = OutcomeFailed, err.Error()
		}
	}
}

// unset returns an output that a finally step needs and that was never made.
func unset(s *runbook.Step, vars expr.Vars) string {
	for _, name := range s.Refs() {
		if vars[name] == expr.Unknown {
			return name
		}
	}
	return ""
}

func (r *runner) steps(ctx context.Context, steps []*runbook.Step, vars expr.Vars, depth int) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("before step %s: %w", s.ID, context.Cause(ctx))
		}
		if err := r.step(ctx, s, vars, depth); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step, and its rescue if it fails. The error ends the run.
func (r *runner) step(ctx context.Context, s *runbook.Step, vars expr.Vars, depth int) error {
	if r.journal != nil {
		return &stepError{s.ID, r.journal}
	}
	started := r.opt.Now()
	r.event(Event{Start: &StepStart{Step: s, Depth: depth}})
	rep := StepReport{Step: s, Depth: depth, Status: Done}
	values, err := r.attempt(ctx, s, vars, &rep)
	rep.Duration = round(r.opt.Now().Sub(started))
	if err == nil {
		return r.end(rep, values)
	}
	rep.Status, rep.Why = Failed, err.Error()
	switch {
	case errors.Is(err, errDeclined):
		rep.Status = Declined
	case errors.Is(ctx.Err(), context.Canceled):
		rep.Status = Interrupted
	case len(s.Rescue) > 0 && ctx.Err() == nil:
		return r.rescue(ctx, s, vars, depth, rep)
	}
	if jerr := r.end(rep, values); jerr != nil {
		return jerr
	}
	return &stepError{s.ID, err}
}

// rescue does the steps below a failed one. If they succeed the run goes on;
// the failed step has no outputs then.
func (r *runner) rescue(ctx context.Context, s *runbook.Step, vars expr.Vars, depth int, rep StepReport) error {
	rep.Status = Rescued
	if err := r.end(rep, nil); err != nil {
		return err
	}
	with := maps.Clone(vars)
	if err := r.steps(ctx, s.Rescue, with, depth+1); err != nil {
		r.report.Steps[r.indexOf(s)].Status = Failed
		return err
	}
	forget(s, vars)
	return nil
}

func (r *runner) indexOf(s *runbook.Step) int {
	for i := range r.report.Steps {
		if r.report.Steps[i].Step == s {
			return i
		}
	}
	return 0
}

// end records how a step ended.
func (r *runner) end(rep StepReport, values map[string]any) error {
	r.report.Steps = append(r.report.Steps, rep)
	r.report.Writes += rep.Writes
	r.event(Event{End: &rep})
	if err := r.opt.Journal.StepEnd(&rep, values); err != nil && r.journal == nil {
		r.journal = err
	}
	if r.journal != nil {
		return &stepError{rep.Step.ID, r.journal}
	}
	return nil
}

// attempt does the work of a step and fills in its report.
func (r *runner) attempt(ctx context.Context, s *runbook.Step, vars expr.Vars, rep *StepReport) (map[string]any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("the step's time of %s is over", s.Timeout))
	defer cancel()
	with := r.job.stepVars(vars, s)
	if skip, _, err := condition(ctx, s, with); err != nil || skip {
		if skip {
			rep.Status, rep.Why = Skipped, s.If.Source()
			forget(s, vars)
		}
		return nil, err
	}
	if r.job.Runbook.Cluster(s.Role) != nil && r.job.Runbook.Cluster(s.Role).Optional && r.job.Clusters[s.Role] == nil {
		rep.Status, rep.Why = Skipped, "no context is bound to "+s.Role
		forget(s, vars)
		return nil, nil
	}
	cluster, err := r.job.cluster(s)
	if err != nil {
		return nil, err
	}
	work, unknown, err := bind(ctx, s, with)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%v has no value", unknown)
	}
	rep.Lines, rep.Context, rep.Items = work.lines(), r.job.Contexts[s.Role], work.items
	if err := r.opt.Journal.StepStart(s); err != nil {
		r.journal = err
		return nil, err
	}
	if err := r.approve(ctx, s, work, cluster, with); err != nil {
		return nil, err
	}
	return r.perform(ctx, s, work, cluster, vars, with, rep)
}

func (r *runner) perform(ctx context.Context, s *runbook.Step, work bound, cluster Cluster, vars, with expr.Vars, rep *StepReport) (map[string]any, error) {
	rec := &recorder{Cluster: cluster, role: s.Role, step: s.ID, journal: r.opt.Journal}
	result, err := work.run(ctx, func(ctx context.Context, action step.Action) (*step.Result, error) {
		rec.allowed = action.Permissions()
		if cluster == nil {
			return action.Run(ctx, nil, &host{runner: r, step: s})
		}
		return action.Run(ctx, rec, &host{runner: r, step: s})
	})
	rep.Writes = rec.writes()
	r.report.Leftover = append(r.report.Leftover, rec.leftover()...)
	if jerr := rec.failed(); jerr != nil {
		r.journal = jerr
	}
	if result == nil {
		result = &step.Result{}
	}
	rep.Said, rep.Table = result.Said, result.Table
	if err != nil {
		return nil, err
	}
	with["result"] = result.Value
	values, err := outputs(ctx, s, with, vars)
	if err != nil {
		return nil, err
	}
	found, failure, err := findings(ctx, s, with)
	rep.Findings = found
	if err == nil && failure != nil {
		err = errors.New(failure.Message)
	}
	return values, err
}

// approve asks for the step's approval, unless it was given beforehand or the
// step would change nothing.
func (r *runner) approve(ctx context.Context, s *runbook.Step, work bound, cluster Cluster, with expr.Vars) error {
	if s.Approve == nil {
		return nil
	}
	var changes []step.Change
	if cluster != nil {
		preview, err := work.preview(ctx, cluster)
		if err == nil && preview.Idle {
			return nil
		}
		if err == nil {
			changes = preview.Changes
		}
	}
	question, err := text(ctx, s.Approve, with)
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	return r.ask(ctx, Question{Step: s, Text: question, Changes: changes})
}

// ask answers a question from what was approved beforehand, or by asking.
func (r *runner) ask(ctx context.Context, q Question) error {
	how := "asked"
	yes := r.opt.ApproveAll || r.opt.Approve[q.Step.ID]
	if yes {
		how = "beforehand"
	} else if r.opt.Ask != nil {
		var err error
		if yes, err = r.opt.Ask(ctx, q); err != nil {
			return err
		}
	} else {
		how = "nobody to ask"
	}
	if err := r.opt.Journal.Approval(q.Step.ID, q.Text, yes, how); err != nil {
		r.journal = err
		return err
	}
	if !yes {
		return fmt.Errorf("%w: %s (%s)", errDeclined, q.Text, how)
	}
	return nil
}
