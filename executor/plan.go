package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Plan is what a run would do to the clusters as they are now.
type Plan struct {
	Job        *Job
	Identities map[string]step.Identity
	Steps      []PlannedStep
}

// Verdict says how far a step could be planned.
type Verdict string

// The verdicts on planned steps.
const (
	Would       Verdict = "would run"
	Idle        Verdict = "nothing to do"
	WouldSkip   Verdict = "skipped"
	WouldFail   Verdict = "would fail"
	AtRunTime   Verdict = "decided at run time"
	Undecided   Verdict = "undecided"
	NotReached  Verdict = "not reached"
	OnlyRescue  Verdict = "only if its step fails"
	CouldNotAsk Verdict = "could not be planned"
)

// PlannedStep is one step of a plan.
type PlannedStep struct {
	Step     *runbook.Step
	Depth    int // of nested rescues
	Finally  bool
	Verdict  Verdict
	Why      string // the condition, the value waited for, or the error
	Said     string
	Changes  []step.Change
	Findings []Finding
	// Lines are the commands for the same by hand, values filled in as far as
	// they are known.
	Lines []step.Line
}

// Changes returns the changes of all steps.
func (p *Plan) Changes() []step.Change {
	var all []step.Change
	for _, s := range p.Steps {
		all = append(all, s.Changes...)
	}
	return all
}

// Open reports whether some steps could not be decided before the run.
func (p *Plan) Open() bool {
	for _, s := range p.Steps {
		if s.Verdict == AtRunTime || s.Verdict == Undecided || s.Verdict == CouldNotAsk || s.Verdict == Would && s.Step.Effect() != step.Reads {
			return true
		}
	}
	return false
}

// Summary says in a few words what the plan comes to.
func (p *Plan) Summary() string {
	n := len(p.Changes())
	for _, s := range p.Steps {
		if s.Verdict == WouldFail && len(s.Step.Rescue) == 0 {
			return fmt.Sprintf("it would end at step %s: %s", s.Step.ID, strings.Join(strings.Fields(s.Why), " "))
		}
	}
	switch {
	case n == 1:
		return "1 change planned"
	case n > 0:
		return fmt.Sprintf("%d changes planned", n)
	case p.Open():
		return "no change is certain yet, some steps are decided at run time"
	}
	return "nothing to do"
}

// NewPlan previews every step. It cannot write: it has only Readers. Values
// that only the run will tell are carried as unknown.
func NewPlan(ctx context.Context, job *Job) (*Plan, error) {
	p := &planner{job: job, ctx: ctx}
	vars := job.vars()
	p.steps(job.Runbook.Steps, vars, 0)
	p.stop, p.finally = "", true
	p.steps(job.Runbook.Finally, vars, 0)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Plan{Job: job, Steps: p.planned}, nil
}

type planner struct {
	job     *Job
	ctx     context.Context // of this one walk
	planned []PlannedStep
	// stop is the step that would end the run, "" if none so far.
	stop     string
	finally  bool
	overlays map[string]*overlay
	// onAction is told the action of every step; quiet leaves the previews of
	// steps that write away.
	onAction func(*runbook.Step, step.Action)
	quiet    bool
}

func (p *planner) reader(s *runbook.Step) step.Reader {
	c := p.job.Clusters[s.Role]
	if c == nil {
		return nil
	}
	if p.overlays == nil {
		p.overlays = map[string]*overlay{}
	}
	if p.overlays[s.Role] == nil {
		p.overlays[s.Role] = newOverlay(c)
	}
	return p.overlays[s.Role]
}

func (p *planner) steps(steps []*runbook.Step, vars expr.Vars, depth int) {
	for _, s := range steps {
		planned := p.step(s, vars)
		planned.Depth, planned.Finally = depth, p.finally
		if depth > 0 && planned.Verdict != WouldSkip {
			planned.Verdict, planned.Changes = OnlyRescue, nil
		}
		p.planned = append(p.planned, planned)
		stop := p.stop
		p.steps(s.Rescue, vars, depth+1)
		p.stop = stop
		if planned.Verdict == WouldFail && len(s.Rescue) == 0 && depth == 0 && p.stop == "" {
			p.stop = s.ID
		}
	}
}

// step plans one step and adds its outputs to vars.
func (p *planner) step(s *runbook.Step, vars expr.Vars) PlannedStep {
	out := PlannedStep{Step: s, Verdict: Would}
	with := p.job.stepVars(vars, s)
	skip, undecided, err := condition(p.ctx, s, with)
	if err != nil {
		out.Verdict, out.Why = CouldNotAsk, err.Error()
		forget(s, vars)
		return out
	}
	work, unknown, err := bind(p.ctx, s, with)
	if err != nil {
		out.Verdict, out.Why = CouldNotAsk, err.Error()
		if skip {
			out.Verdict, out.Why = WouldSkip, s.If.Source()
		}
		forget(s, vars)
		return out
	}
	if p.onAction != nil {
		for _, action := range work.actions {
			p.onAction(s, action)
		}
	}
	out.Lines = work.lines()
	switch {
	case p.stop != "":
		out.Verdict, out.Why = NotReached, "step "+p.stop+" would end the run"
	case skip:
		out.Verdict, out.Why = WouldSkip, s.If.Source()
	case undecided:
		out.Verdict, out.Why = Undecided, s.If.Source()
	case len(unknown) > 0:
		out.Verdict, out.Why = AtRunTime, "needs "+strings.Join(unknown, ", ")
	case s.Role != "" && p.job.Clusters[s.Role] == nil:
		out.Verdict, out.Why = WouldSkip, "no context is bound to "+s.Role
	default:
		p.preview(s, work, with, vars, &out)
		return out
	}
	forget(s, vars)
	return out
}

// condition evaluates the step's if.
func condition(ctx context.Context, s *runbook.Step, vars expr.Vars) (skip, undecided bool, err error) {
	if s.If == nil {
		return false, false, nil
	}
	v, err := s.If.Eval(ctx, vars)
	if err != nil {
		return false, false, fmt.Errorf("if: %w", err)
	}
	return v.V == false && len(v.Unknown) == 0, len(v.Unknown) > 0, nil
}

func (p *planner) preview(s *runbook.Step, work bound, with, vars expr.Vars, out *PlannedStep) {
	if p.quiet && s.Effect() != step.Reads {
		forget(s, vars)
		return
	}
	preview, err := work.preview(p.ctx, p.reader(s))
	if err != nil {
		out.Verdict, out.Why = CouldNotAsk, err.Error()
		if apierrors.IsNotFound(err) || s.Effect() == step.Reads && !errors.Is(err, errPlanned) && !apierrors.IsForbidden(err) {
			out.Verdict = WouldFail
		}
		forget(s, vars)
		return
	}
	out.Said, out.Changes = preview.Said, preview.Changes
	if preview.Idle {
		out.Verdict = Idle
	}
	for _, c := range preview.Changes {
		if o := p.overlays[s.Role]; o != nil {
			o.add(c)
		}
	}
	if !preview.Known {
		forget(s, vars)
		p.known(s, vars, with)
		return
	}
	with["result"] = preview.Value
	p.judge(s, with, vars, out)
}

// known evaluates the outputs that do not depend on the result.
func (p *planner) known(s *runbook.Step, vars, with expr.Vars) {
	with["result"] = expr.Unknown
	if _, err := outputs(p.ctx, s, with, vars); err != nil {
		forget(s, vars)
	}
}

func (p *planner) judge(s *runbook.Step, with, vars expr.Vars, out *PlannedStep) {
	if _, err := outputs(p.ctx, s, with, vars); err != nil {
		out.Verdict, out.Why = WouldFail, err.Error()
		forget(s, vars)
		return
	}
	found, failure, err := findings(p.ctx, s, with)
	out.Findings = found
	switch {
	case err != nil:
		out.Verdict, out.Why = WouldFail, err.Error()
	case failure != nil:
		out.Verdict, out.Why = WouldFail, failure.Message
	}
}
