package cli

import (
	"encoding/json"
	"errors"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/executor"
	"rutter/executor/journal"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// runsDir is where the journals of runs are.
func runsDir(env *Env) (string, error) {
	dir, err := stateDir(env)
	return filepath.Join(dir, "runs"), err
}

// record writes what the executor reports into a journal.
type record struct{ w *journal.Writer }

var _ executor.Journal = record{}

// openRecord starts the journal of a run.
func openRecord(env *Env, job *executor.Job, ids map[string]step.Identity) (record, error) {
	root, err := runsDir(env)
	if err != nil {
		return record{}, err
	}
	id, err := journal.NewID(env.Now(), job.Runbook.Name)
	if err != nil {
		return record{}, err
	}
	name := job.Runbook.Path
	if name == "" {
		name = job.Runbook.Source.Name
	}
	start := journal.RunStart{ID: id, Runbook: name, Title: job.Runbook.Title, Digest: job.Runbook.Digest, Source: job.Runbook.Source.Text,
		Inputs: shownInputs(job), Clusters: map[string]journal.Cluster{}, Version: Version}
	for role, c := range ids {
		start.Clusters[role] = journal.Cluster{Context: c.Context, Server: c.Server, User: c.User, Version: c.Version, UID: string(c.UID)}
	}
	w, err := journal.Create(root, start, env.Now)
	return record{w}, err
}

// shownInputs are the inputs with the secret ones masked.
func shownInputs(job *executor.Job) map[string]any {
	out := map[string]any{}
	for name, v := range job.Inputs {
		if in := job.Runbook.Input(name); in != nil && in.Type == runbook.Secret {
			v = "(masked)"
		}
		out[name] = v
	}
	return out
}

func (r record) ID() string { return r.w.ID() }

func (r record) StepStart(s *runbook.Step) error {
	return r.w.StepStart(journal.StepStart{ID: s.ID, Title: s.Title})
}

func (r record) StepEnd(rep *executor.StepReport, outputs map[string]any) error {
	end := journal.StepEnd{ID: rep.Step.ID, Status: string(rep.Status), Why: rep.Why, Said: rep.Said, Writes: rep.Writes, Outputs: outputs,
		Commands: step.Shell(rep.Lines, rep.Context), Seconds: rep.Duration.Seconds()}
	for _, f := range rep.Findings {
		end.Findings = append(end.Findings, journal.Finding{Level: string(f.Level), Message: f.Message, Fix: f.Fix})
	}
	return r.w.StepEnd(end)
}

func (r record) Approval(stepID, question string, yes bool, how string) error {
	return r.w.Approval(journal.Approval{Step: stepID, Question: question, Yes: yes, How: how})
}

func (r record) Intent(stepID, role string, w step.Write, before *unstructured.Unstructured) (int, error) {
	intent := journal.Intent{Step: stepID, Role: role, Resource: w.Ref.Resource.String(), Namespace: w.Ref.Namespace, Name: w.Ref.Name,
		UID: string(w.Ref.UID), Before: journal.Object(executor.Redact(before))}
	switch {
	case w.Delete != nil:
		intent.Op = "delete"
	case w.Patch != nil:
		intent.Op = "patch"
		if before == nil || before.GetKind() != "Secret" || json.Valid(w.Patch.Body) && onlyMetadata(w.Patch.Body) {
			intent.Body = w.Patch.Body
		}
	case w.Apply != nil:
		intent.Op = "apply"
		body, err := json.Marshal(executor.Redact(w.Apply.Object))
		if err != nil {
			return 0, err
		}
		intent.Body = body
	}
	return r.w.Intent(intent)
}

// onlyMetadata reports whether a JSON patch touches nothing but metadata, so
// that it holds no secret.
func onlyMetadata(body []byte) bool {
	var ops []struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(body, &ops) != nil {
		return false
	}
	for _, op := range ops {
		if len(op.Path) < 10 || op.Path[:10] != "/metadata/" {
			return false
		}
	}
	return true
}

func (r record) Outcome(id int, after *unstructured.Unstructured, err error) error {
	o := journal.WriteOutcome{Write: id}
	if after != nil {
		o.UID, o.ResourceVersion = string(after.GetUID()), after.GetResourceVersion()
	}
	if err != nil {
		o.Error, o.Unknown = err.Error(), executor.IsUnknown(err)
	}
	return r.w.Outcome(o)
}

// End records the outcome and closes the journal.
func (r record) End(rep *executor.Report) error {
	return errors.Join(r.w.End(journal.RunEnd{Outcome: string(rep.Outcome), Why: rep.Why, Writes: rep.Writes}), r.w.Close())
}
