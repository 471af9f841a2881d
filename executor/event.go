package executor

import (
	"time"

	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Event is something that a person who watches a run wants to know. Exactly
// one of the pointers is set.
type Event struct {
	Time     time.Time
	Start    *StepStart
	Progress *StepProgress
	End      *StepReport
	Finally  *FinallyStart
}

// StepStart says that a step begins.
type StepStart struct {
	Step  *runbook.Step
	Depth int // of nested rescues
}

// StepProgress is what a step is waiting for.
type StepProgress struct {
	Step string
	Text string
}

// FinallyStart says that the steps at the end begin. Interrupted is set if a
// signal ended the others.
type FinallyStart struct {
	Interrupted bool
	Reserved    time.Duration
}

// StepReport is how a step ended.
type StepReport struct {
	Step     *runbook.Step
	Depth    int
	Status   Status
	Why      string // of a skip, a failure or a refusal
	Said     string
	Table    *step.Table
	Findings []Finding
	// Lines are the commands that do the same by hand, values filled in.
	Lines    []step.Line
	Context  string // of the step's cluster, "" for none
	Items    []any  // of a repeated step
	Writes   int    // objects changed
	Duration time.Duration
}

// Report is how a run ended.
type Report struct {
	Outcome Outcome
	Why     string // what failed, was declined, or interrupted it
	Steps   []StepReport
	Writes  int
	Started time.Time
	Ended   time.Time
	// Leftover are the writes whose outcome is not known.
	Leftover []string
}

// Findings returns those of all steps, in order.
func (r *Report) Findings() []Finding {
	var all []Finding
	for _, s := range r.Steps {
		all = append(all, s.Findings...)
	}
	return all
}
