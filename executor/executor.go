// Package executor plans and runs a runbook on live clusters.
//
// A [Job] is a runbook with its inputs and its clusters. [Preflight] tells
// whether it may run, [NewPlan] what it would do, and [Run] does it and keeps
// a journal. Everything that a person sees of it is an [Event]. The package
// talks to clusters through the interfaces of runbooks/step only; it knows
// neither client-go nor a terminal.
package executor

import (
	"context"
	"fmt"
	"maps"
	"time"

	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Cluster is what the executor needs of a cluster: the verbs' view of it, who
// it is, and what the operator may do there.
type Cluster interface {
	step.Cluster
	// Identity asks which cluster this is.
	Identity(ctx context.Context) (step.Identity, error)
	// Access returns those of perms that the cluster refuses the operator.
	Access(ctx context.Context, perms []step.Permission) (missing []step.Permission, err error)
	// Kubeconfig writes a kubeconfig into dir that has this cluster as its only
	// and current context, and returns its path.
	Kubeconfig(dir string) (path string, err error)
}

// Job is a runbook, its inputs as [runbook.Runbook.Resolve] returns them, and
// the clusters bound to its roles. An optional role may be missing.
type Job struct {
	Runbook  *runbook.Runbook
	Inputs   map[string]any
	Contexts map[string]string // by role, for display and expressions
	Clusters map[string]Cluster
}

// vars returns what expressions can refer to before any step has run.
func (j *Job) vars() expr.Vars {
	vars := expr.Vars{}
	for name, v := range j.Inputs {
		vars["inputs."+name] = v
	}
	for _, c := range j.Runbook.Clusters {
		_, bound := j.Clusters[c.Role]
		vars["clusters."+c.Role+".bound"] = bound
		vars["clusters."+c.Role+".context"] = j.Contexts[c.Role]
	}
	return vars
}

// stepVars returns vars with what only the step itself can refer to.
func (j *Job) stepVars(vars expr.Vars, s *runbook.Step) expr.Vars {
	with := maps.Clone(vars)
	with["cluster.role"] = s.Role
	with["cluster.context"] = j.Contexts[s.Role]
	return with
}

// cluster returns the step's cluster, nil if the step works without one.
func (j *Job) cluster(s *runbook.Step) (Cluster, error) {
	if s.Role == "" {
		return nil, nil
	}
	c, ok := j.Clusters[s.Role]
	if !ok {
		return nil, fmt.Errorf("step %s: no context is bound to the role %s", s.ID, s.Role)
	}
	return c, nil
}

// Status is how a step ended, or would end.
type Status string

// The statuses of steps.
const (
	Done        Status = "done"
	Skipped     Status = "skipped"     // its condition did not hold
	Failed      Status = "failed"      // and ended the run, or its rescue
	Rescued     Status = "rescued"     // failed, but its rescue succeeded
	Declined    Status = "declined"    // a person said no
	Interrupted Status = "interrupted" // a signal came while it ran
)

// Outcome is how a run ended.
type Outcome string

// The outcomes of runs.
const (
	OutcomeDone        Outcome = "done"
	OutcomeNothing     Outcome = "nothing to do" // done, and no object was changed
	OutcomeFailed      Outcome = "failed"
	OutcomeRefused     Outcome = "refused" // by the preflight
	OutcomeDeclined    Outcome = "declined"
	OutcomeInterrupted Outcome = "interrupted"
)

// Finding is a piece of knowledge that a run came by.
type Finding struct {
	Step    string        `json:"step"`
	Level   runbook.Level `json:"level"`
	Message string        `json:"message"`
	Fix     string        `json:"fix,omitempty"`
}

// findings evaluates a step's expectations on vars, which hold the result. It
// returns what holds, and the first failure among them.
func findings(ctx context.Context, s *runbook.Step, vars expr.Vars) (found []Finding, failure *Finding, err error) {
	for _, e := range s.Expect {
		v, err := e.Cond.Eval(ctx, vars)
		if err != nil {
			return found, failure, fmt.Errorf("%s: %w", e.Pos, err)
		}
		if len(v.Unknown) > 0 || v.V != true {
			continue
		}
		f := Finding{Step: s.ID, Level: e.Level}
		if f.Message, err = text(ctx, e.Message, vars); err != nil {
			return found, failure, fmt.Errorf("%s: message: %w", e.Pos, err)
		}
		if f.Fix, err = text(ctx, e.Fix, vars); err != nil {
			return found, failure, fmt.Errorf("%s: fix: %w", e.Pos, err)
		}
		found = append(found, f)
		if e.Level == runbook.Fail && failure == nil {
			failure = &f
		}
	}
	return found, failure, nil
}

// text evaluates a template to a string; nil is "".
func text(ctx context.Context, t *expr.Template, vars expr.Vars) (string, error) {
	if t == nil {
		return "", nil
	}
	v, err := t.Eval(ctx, vars)
	if err != nil {
		return "", err
	}
	if len(v.Unknown) > 0 {
		return fmt.Sprintf("(decided at run time, from %v)", v.Unknown), nil
	}
	return fmt.Sprint(v.V), nil
}

// outputs evaluates a step's outputs on vars and adds them to into.
func outputs(ctx context.Context, s *runbook.Step, vars, into expr.Vars) (map[string]any, error) {
	values := map[string]any{}
	for _, o := range s.Outputs {
		v, err := o.Value.Eval(ctx, vars)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", o.Name, err)
		}
		value := v.V
		if len(v.Unknown) > 0 {
			value = expr.Unknown
		} else {
			values[o.Name] = value
		}
		name := "steps." + s.ID + "." + o.Name
		vars[name], into[name] = value, value
	}
	return values, nil
}

// forget declares a step's outputs as unknown.
func forget(s *runbook.Step, into expr.Vars) {
	for _, o := range s.Outputs {
		into["steps."+s.ID+"."+o.Name] = expr.Unknown
	}
}

// round cuts a duration to what a person reads.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
