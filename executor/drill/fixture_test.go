package drill_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/executor"
	"rutter/executor/drill"
	"rutter/executor/kube"
	"rutter/executor/kube/kubetest"
	"rutter/runbooks"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// recorded are states of real clusters, kept beside the project, and the real
// custom resource definitions that go with them.
const (
	recorded    = "../../../shared/liqo-fixtures"
	definitions = "../../../shared/liqo-crds"
)

// everyStateEnv makes the test try every recorded state on every version; by
// default it tries one of each kind.
const everyStateEnv = "RUTTER_EVERY_STATE"

// recordedState is a recorded cluster and what forgetting its peer must come to.
type recordedState struct {
	dir, cluster string
	lost         bool   // the operator says that the peer is gone
	finding      string // of a run that must fail and change nothing
	always       bool   // tried by default
}

var recordedStates = []recordedState{
	{dir: "healthy", cluster: "rome", finding: "still answers", always: true},
	{dir: "healthy", cluster: "milan", finding: "nothing here tells", always: true},
	{dir: "healthy", cluster: "rome", lost: true},
	{dir: "healthy", cluster: "milan", lost: true, always: true},
	{dir: "a-after-unpeer", cluster: "rome"},
	{dir: "a-after-unpeer", cluster: "milan"},
	{dir: "b-provider-dead-unpeer-stuck", cluster: "rome", lost: true, always: true},
	{dir: "b-provider-dead-unpeer-stuck", cluster: "milan", lost: true},
	{dir: "c-force-unpeer-after-b", cluster: "rome"},
	{dir: "e-consumer-controllers-stopped-ns-deleted", cluster: "rome", always: true},
	{dir: "e2-controllers-back-still-stuck", cluster: "rome"},
	{dir: "i-dead-apiservice-ns-stuck", cluster: "rome", finding: "v1beta1.metrics.liqo.io", always: true},
}

// TestRecordedStates lays recorded states of real clusters on a practice
// cluster, each beside a healthy peering with a third cluster, and has the
// peer forgotten. No controller of Liqo runs there.
func TestRecordedStates(t *testing.T) {
	if _, err := os.Stat(recorded); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no recorded states in %s", recorded)
	}
	t.Parallel()
	versions := []string{"v1.2.0"}
	every := os.Getenv(everyStateEnv) != ""
	if every {
		versions = []string{"v1.0.3", "v1.2.0"}
	}
	c := kubetest.Connect(t, "h")
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			define(t, c, version)
			for _, s := range recordedStates {
				if every || s.always {
					name := s.dir + "/" + s.cluster + map[bool]string{true: "/lost"}[s.lost]
					t.Run(name, func(t *testing.T) { forget(t, c, version, s) })
				}
			}
		})
	}
}

// restore removes at the end of the test what was made since.
func restore(t *testing.T, c *kube.Cluster) {
	t.Helper()
	before, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := c.RemoveSince(ctx, before); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// peers tells, by the cluster that was recorded, whom it is to forget.
var peers = map[string]string{"rome": "milan", "milan": "rome"}

func forget(t *testing.T, c *kube.Cluster, version string, s recordedState) {
	restore(t, c)
	load(t, c, version, s)
	peer := peers[s.cluster]
	others := versionsOf(t, c, func(o *unstructured.Unstructured) bool { return !names(o, peer) && stays(o) })
	if len(others) < 20 {
		t.Fatalf("only %d objects must stay untouched; the healthy peering was not laid", len(others))
	}
	all := versionsOf(t, c, stays)

	rep := run(t, c, peer, s.lost)
	if s.finding != "" {
		if rep.Outcome != executor.OutcomeFailed || !strings.Contains(rep.Why, s.finding) {
			t.Errorf("the run ended as %q (%s), want %q because of %q", rep.Outcome, rep.Why, executor.OutcomeFailed, s.finding)
		}
		untouched(t, c, all)
		return
	}
	if rep.Outcome != executor.OutcomeDone {
		t.Errorf("the run ended as %q (%s), want %q", rep.Outcome, rep.Why, executor.OutcomeDone)
	}
	untouched(t, c, others)
	for ref := range versionsOf(t, c, func(o *unstructured.Unstructured) bool { return names(o, peer) }) {
		t.Errorf("%s is still there", ref)
	}
	if rep := run(t, c, peer, s.lost); rep.Outcome != executor.OutcomeNothing {
		t.Errorf("the second run ended as %q (%s), want %q", rep.Outcome, rep.Why, executor.OutcomeNothing)
	}
}

// run forgets a peer, and watches for less long than the runbook says whether
// it stays forgotten.
func run(t *testing.T, c *kube.Cluster, peer string, lost bool) *executor.Report {
	t.Helper()
	const file = "liqo/peering/force-unpeer.yaml"
	text, err := fs.ReadFile(runbooks.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	short := strings.Replace(string(text), "hold: 30s", "hold: 1s", 1)
	rb, err := runbook.Parse(diag.Source{Name: file, Text: short}, step.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"clusterID": peer}
	if lost {
		given["peerLost"] = "true"
	}
	inputs, err := rb.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	job := &executor.Job{Runbook: rb, Inputs: inputs, Contexts: map[string]string{"local": c.Context()}, Clusters: map[string]executor.Cluster{"local": c}}
	check, err := executor.Preflight(t.Context(), job)
	if err != nil || !check.OK() {
		t.Fatalf("preflight: %v, %+v", err, check)
	}
	rep, err := executor.Run(t.Context(), job, executor.Options{ApproveAll: true, Journal: drill.None{}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// names reports whether an object belongs to the peering with the cluster:
// whether its name, its namespace or a label names it.
func names(o *unstructured.Unstructured, peer string) bool {
	tenant := "liqo-tenant-" + peer
	labels := o.GetLabels()
	switch {
	case o.GetNamespace() == tenant || o.GetName() == tenant:
		return true
	case labels["liqo.io/remote-cluster-id"] == peer || labels["liqo.io/originID"] == peer || labels["offloading.liqo.io/origin"] == peer:
		return true
	case labels["networking.liqo.io/gateway-namespace"] == tenant:
		return true
	case strings.HasPrefix(o.GetAnnotations()["liqo.io/managed-by-namespace-map"], tenant+"/"):
		return true
	case o.GetNamespace() == "demo":
		// Those of the pods on its virtual node; the others' pods are renamed.
		return strings.HasPrefix(o.GetName(), podPrefix) && slices.Contains([]string{"IP", "FirewallConfiguration"}, o.GetKind())
	}
	return o.GetName() == peer && slices.Contains([]string{"ForeignCluster", "Node"}, o.GetKind())
}

// stays reports whether nobody but a run would change the object.
func stays(o *unstructured.Unstructured) bool {
	return o.GetDeletionTimestamp() == nil && !slices.Contains([]string{"Pod", "Deployment", "Service"}, o.GetKind())
}

// podPrefix begins the names of the offloaded pods in the recorded states.
const podPrefix = "web-6dbff98dd8-"

// versionsOf returns the resource versions of the objects that ok accepts.
func versionsOf(t *testing.T, c *kube.Cluster, ok func(*unstructured.Unstructured) bool) map[string]string {
	t.Helper()
	resources := []step.Resource{{Plural: "namespaces"}, {Plural: "nodes"}, {Plural: "secrets"}, {Plural: "clusterrolebindings", Group: "rbac.authorization.k8s.io"}}
	crds, err := c.List(t.Context(), step.Query{Resource: step.Resource{Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		res, err := step.ParseResource(crd.GetName())
		if err != nil {
			t.Fatal(err)
		}
		resources = append(resources, res)
	}
	out := map[string]string{}
	for _, res := range resources {
		objs, err := c.List(t.Context(), step.Query{Resource: res})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objs {
			if ok(o) {
				out[step.RefOf(res, o).String()] = string(o.GetUID()) + "/" + o.GetResourceVersion()
			}
		}
	}
	return out
}

func untouched(t *testing.T, c *kube.Cluster, before map[string]string) {
	t.Helper()
	after := versionsOf(t, c, func(*unstructured.Unstructured) bool { return true })
	for ref, version := range before {
		if after[ref] != version {
			t.Errorf("%s should be untouched, and is not: %q, was %q", ref, after[ref], version)
		}
	}
}
