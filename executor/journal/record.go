package journal

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Record is one line. Exactly one of the pointers is set.
type Record struct {
	Seq      int           `json:"seq"`
	Time     time.Time     `json:"time"`
	Start    *RunStart     `json:"start,omitempty"`
	Step     *StepStart    `json:"step,omitempty"`
	Approval *Approval     `json:"approval,omitempty"`
	Intent   *Intent       `json:"intent,omitempty"`
	Outcome  *WriteOutcome `json:"outcome,omitempty"`
	Note     *Note         `json:"note,omitempty"`
	StepEnd  *StepEnd      `json:"stepEnd,omitempty"`
	End      *RunEnd       `json:"end,omitempty"`
	Resume   *RunResume    `json:"resume,omitempty"`
}

// kinds counts what is set.
func (r *Record) kinds() int {
	n := 0
	for _, set := range []bool{
		r.Start != nil, r.Step != nil, r.Approval != nil, r.Intent != nil, r.Outcome != nil,
		r.Note != nil, r.StepEnd != nil, r.End != nil, r.Resume != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

// RunStart is the first record: what was to be done, and to which clusters.
type RunStart struct {
	ID      string `json:"id"`
	Runbook string `json:"runbook"`
	Title   string `json:"title"`
	// Digest is the SHA-256 of the runbook's text, which is Source.
	Digest   string             `json:"digest"`
	Source   string             `json:"source"`
	Inputs   map[string]any     `json:"inputs,omitempty"` // secret ones are masked
	Clusters map[string]Cluster `json:"clusters,omitempty"`
	Version  string             `json:"version"` // of Rutter
}

// Cluster says which cluster a role was bound to.
type Cluster struct {
	Context string `json:"context"`
	Server  string `json:"server"`
	User    string `json:"user,omitempty"`
	Version string `json:"version,omitempty"`
	UID     string `json:"uid"`
}

// StepStart says that a step began.
type StepStart struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// Approval is a question and its answer. How is "asked", "beforehand" or
// "nobody to ask".
type Approval struct {
	Step     string `json:"step"`
	Question string `json:"question"`
	Yes      bool   `json:"yes"`
	How      string `json:"how"`
}

// Intent is a write that is about to be sent. Before is the object as it was
// then, nil if it was not there.
type Intent struct {
	Write     int             `json:"write"`
	Step      string          `json:"step"`
	Role      string          `json:"role"`
	Op        string          `json:"op"` // delete, patch or apply
	Resource  string          `json:"resource"`
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	UID       string          `json:"uid,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
	Before    Content         `json:"before,omitempty"`
}

// Content is an object as the server gave it. Whole numbers stay whole, so
// that what is restored from it is what was there.
type Content map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (c *Content) UnmarshalJSON(data []byte) error {
	return utiljson.Unmarshal(data, (*map[string]any)(c))
}

// Object names what the write is about: demo/pods/api.
func (i *Intent) Object() string {
	return strings.TrimPrefix(i.Namespace+"/"+i.Resource+"/"+i.Name, "/")
}

// WriteOutcome is how a write ended. Error is "" if it was done; Unknown means
// that nobody can tell.
type WriteOutcome struct {
	Write           int    `json:"write"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Error           string `json:"error,omitempty"`
	Unknown         bool   `json:"unknown,omitempty"`
}

// StepEnd is how a step ended.
type StepEnd struct {
	ID       string         `json:"id"`
	Status   string         `json:"status"`
	Why      string         `json:"why,omitempty"`
	Said     string         `json:"said,omitempty"`
	Commands string         `json:"commands,omitempty"` // what does the same by hand
	Writes   int            `json:"writes,omitempty"`
	Outputs  map[string]any `json:"outputs,omitempty"`
	Findings []Finding      `json:"findings,omitempty"`
	Seconds  float64        `json:"seconds"`
}

// Finding is a piece of knowledge that a step came by.
type Finding struct {
	Level   string `json:"level"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// RunEnd is how the run ended.
type RunEnd struct {
	Outcome string `json:"outcome"`
	Why     string `json:"why,omitempty"`
	Writes  int    `json:"writes"`
}

// RunResume says that a run which had ended, or broken off, goes on.
type RunResume struct {
	Version string `json:"version"` // of Rutter
}

// Note is something else that is worth keeping.
type Note struct {
	Step string `json:"step,omitempty"`
	Text string `json:"text"`
}

// Object returns an object as an Intent keeps it.
func Object(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	return o.Object
}
