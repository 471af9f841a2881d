package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// writeTimeout bounds one write. A write is not cut short by an interrupt,
// since nobody could tell then whether it happened.
const writeTimeout = 30 * time.Second

// Journal is where a run is recorded. Intent must be on disk before it
// returns, and so must Outcome.
type Journal interface {
	StepStart(s *runbook.Step) error
	StepEnd(rep *StepReport, outputs map[string]any) error
	Approval(step, question string, yes bool, how string) error
	// Intent records a write that is about to be sent, with the object as it
	// is (nil if it is not there), and returns the write's number.
	Intent(step, role string, w step.Write, before *unstructured.Unstructured) (int, error)
	// Outcome records how the write ended.
	Outcome(id int, after *unstructured.Unstructured, err error) error
	End(r *Report) error
}

// recorder is the cluster that a step writes to: it refuses what the step did
// not declare, and journals every write before and after it.
type recorder struct {
	Cluster
	step, role string
	journal    Journal
	allowed    []step.Permission

	mu      sync.Mutex
	changed int
	unknown []string
	err     error // of the journal
}

// Do journals the write and performs it.
func (r *recorder) Do(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	if err := r.declared(w); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Ref, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	before, err := r.before(ctx, w)
	if err != nil {
		return nil, err
	}
	id, err := r.journal.Intent(r.step, r.role, w, before)
	if err != nil {
		return nil, r.fail(err)
	}
	after, err := r.Cluster.Do(ctx, w)
	if jerr := r.journal.Outcome(id, after, err); jerr != nil {
		return after, r.fail(jerr)
	}
	r.count(w, before, after, err)
	return after, err
}

// before reads the object that is about to be changed.
func (r *recorder) before(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	if w.Before != nil {
		return w.Before, nil
	}
	obj, err := r.Cluster.Get(ctx, w.Ref)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s before changing it: %w", w.Ref, err)
	}
	return obj, nil
}

// declared refuses a write that the step's permissions do not cover: what the
// page says a step needs is all that it can do.
func (r *recorder) declared(w step.Write) error {
	verb := "patch"
	if w.Delete != nil {
		verb = "delete"
	}
	asked := step.Permission{Verb: verb, Resource: w.Ref.Resource.Unversioned(), Namespace: w.Ref.Namespace, Name: w.Ref.Name}
	switch {
	case w.Patch != nil:
		asked.Subresource = w.Patch.Subresource
	case w.Apply != nil:
		asked.Subresource = w.Apply.Subresource
	}
	for _, p := range r.allowed {
		if p.Allows(asked) {
			return nil
		}
	}
	return fmt.Errorf("this step did not declare that it would %s", asked)
}

func (r *recorder) fail(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	return fmt.Errorf("record the change: %w", err)
}

func (r *recorder) count(w step.Write, before, after *unstructured.Unstructured, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case IsUnknown(err):
		r.unknown = append(r.unknown, string(w.Op())+" "+w.Ref.String())
	case err != nil:
	case w.Delete == nil && before != nil && after != nil && before.GetResourceVersion() == after.GetResourceVersion() && !freed(before, after):
	default:
		r.changed++
	}
}

// freed reports whether a write took the last finalizer of an object that was
// being deleted: the server then removes it and answers with its old version.
func freed(before, after *unstructured.Unstructured) bool {
	return before.GetDeletionTimestamp() != nil && len(before.GetFinalizers()) > 0 && len(after.GetFinalizers()) == 0
}

func (r *recorder) writes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *recorder) leftover() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown
}

func (r *recorder) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// IsUnknown reports whether an error leaves open whether a write happened.
func IsUnknown(err error) bool {
	var unknown interface {
		error
		OutcomeUnknown() bool
	}
	return errors.As(err, &unknown) && unknown.OutcomeUnknown()
}
