package runbook_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// head is a runbook up to its steps; line 12 is the first step.
const head = `apiVersion: rutter/v1
kind: Runbook
metadata: {name: free}
title: Free it
summary: Free what is stuck.
clusters:
  local: {title: Yours}
inputs:
  clusterID: {type: string, required: true, doc: The cluster.}
  lost: {type: boolean, doc: Whether.}
steps:
`

func parse(text string) (*runbook.Runbook, error) {
	return runbook.Parse(diag.Source{Name: "free.yaml", Text: text}, step.Builtin())
}

func mustParse(t *testing.T, text string) *runbook.Runbook {
	t.Helper()
	rb, err := parse(text)
	if err != nil {
		t.Fatalf("unexpected problems:\n%v", err)
	}
	return rb
}

func TestParseReportsEverythingAtItsPlace(t *testing.T) {
	for _, tc := range []struct {
		name, steps string
		want        string
	}{
		{"unknown verb", "- id: a\n  delte: {resource: pods}\n",
			"free.yaml:12:3: step a has no verb\n\thint: add one of get, check, set, wait, explain, apply, patch, delete, unfinalize, command, manual\n" +
				"free.yaml:13:3: unknown key \"delte\" in step a\n\thint: did you mean \"delete\"?"},
		{"two verbs", "- id: a\n  get: {resource: nodes}\n  check: {}\n",
			"free.yaml:14:3: a step has one verb, and this one has get already\n\thint: make it a step of its own"},
		{"misspelt argument", "- id: a\n  get: {resorce: nodes}\n",
			"free.yaml:13:8: get: the key \"resource\" is missing\n\thint: add resource: …  # What kind of object, as kubectl names it: plural.group, such as pods or deployments.apps.\n" +
				"free.yaml:13:9: unknown key \"resorce\" in get\n\thint: did you mean \"resource\"?"},
		{"timeout at the wrong level", "- id: a\n  get: {resource: nodes, timeout: 5s}\n",
			"free.yaml:13:26: unknown key \"timeout\" in get\n\thint: timeout belongs to the step, beside get"},
		{"unknown role and input", "- id: a\n  cluster: locl\n  get: {resource: nodes, name: '${inputs.clusterId}'}\n",
			"free.yaml:12:3: step a: there is no role \"locl\"\n\thint: did you mean \"local\"?\n" +
				"free.yaml:14:35: inputs has no clusterId\n\thint: did you mean \"inputs.clusterID\"?"},
		{"later, missing and misspelt references", "- id: a\n  get: {resource: pods, namespace: '${steps.b.ns}'}\n" +
			"- id: b\n  get: {resource: nodes}\n  outputs: {ns: '${result[0].metadata.name}'}\n" +
			"- id: c\n  get: {resource: pods, namespace: '${steps.b.nss}'}\n  if: steps.d.ok\n",
			"free.yaml:13:39: step b comes later, on line 14\n\thint: move it before this one\n" +
				"free.yaml:18:39: step b has no output \"nss\"\n\thint: did you mean \"ns\"?\n" +
				"free.yaml:19:7: there is no step \"d\"\n\thint: known here: a, b"},
		{"reference to a step that may be skipped", "- id: a\n  if: inputs.lost\n  get: {resource: nodes}\n  outputs: {n: '${result[0].metadata.name}'}\n" +
			"- id: b\n  get: {resource: nodes, name: '${steps.a.n}'}\n- id: c\n  if: inputs.lost\n  get: {resource: nodes, name: '${steps.a.n}'}\n",
			"free.yaml:17:35: step a may be skipped, and then has no n\n\thint: give this step the same if, or drop that one's"},
		{"bad CEL in a block", "- id: a\n  check: {}\n  expect:\n  - fail: |\n      inputs.lost &&\n      size(inputs.clusterID) + 1\n    message: No.\n",
			"free.yaml:17:30: want a bool, got an int"},
		{"type of a condition", "- id: a\n  check: {}\n  expect:\n  - warn: inputs.clusterID\n    message: No.\n",
			"free.yaml:15:11: want a bool, got a string\n\thint: compare it: … == \"…\""},
		{"expectation without condition, and with two", "- id: a\n  check: {}\n  expect:\n  - message: No.\n  - {warn: inputs.lost, fail: inputs.lost, message: x}\n",
			"free.yaml:15:5: step a: an expectation without a condition\n\thint: add fail: …, warn: … or pass: … with a condition\n" +
				"free.yaml:16:12: an expectation is one of fail, warn and pass\n\thint: make it an entry of its own"},
		{"a repeated step", "- id: a\n  forEach: {items: '[\"x\"]', as: result}\n  get: {resource: nodes}\n" +
			"- id: b\n  forEach: {items: inputs.clusterID, as: n}\n  get: {resource: nodes}\n" +
			"- id: c\n  forEach: {items: '[\"x\"]', as: n}\n  get: {resource: nodes, name: '${n}'}\n  expect: [{warn: n == \"x\", message: No.}]\n",
			"free.yaml:13:33: \"result\" means something else in expressions\n\thint: use another name\n" +
				"free.yaml:16:20: want a list, got a string\n" +
				"free.yaml:21:19: there is nothing named n\n\thint: known here: cluster, clusters, inputs, result"},
		{"id used twice", "- id: a\n  check: {}\n- id: a\n  check: {}\n",
			"free.yaml:14:3: the id \"a\" is taken by the step on line 12\n\thint: give it another id"},
		{"namespace and all namespaces", "- id: a\n  get: {resource: pods, namespace: x, allNamespaces: true}\n",
			"free.yaml:13:54: get: namespace and allNamespaces exclude each other\n\thint: drop one of them"},
	} {
		_, err := parse(head + tc.steps)
		if err == nil {
			t.Errorf("%s: parsed, want\n%s", tc.name, tc.want)
			continue
		}
		if strings.HasSuffix(tc.want, ": ") {
			if !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%s: got %q, want it to begin with %q", tc.name, err, tc.want)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

const stuck = head + `- id: find
  title: Find it
  get: {resource: foreignclusters.core.liqo.io, name: '${inputs.clusterID}', optional: true}
  outputs:
    ns: ${result.?status.?tenantNamespace.?local.orValue("liqo-tenant-" + inputs.clusterID)}
    role: ${result.?status.?role.orValue("Unknown")}
  expect:
  - fail: steps.find.role == "Both" && !inputs.lost
    message: Both directions are peered with ${inputs.clusterID}.
    fix: Unpeer one first.
- id: drop
  approve: Delete the maps of ${inputs.clusterID}?
  delete: {resource: namespacemaps.offloading.liqo.io, namespace: '${steps.find.ns}', all: true}
  timeout: 90s
`

func TestThePageShowsPlaceholdersAndVariables(t *testing.T) {
	rb := mustParse(t, stuck)
	find, drop := rb.Step("find"), rb.Step("drop")
	got := step.Shell(find.Lines(), find.Context())
	want := `kubectl --context <LOCAL_CONTEXT> get foreignclusters.core.liqo.io <CLUSTER_ID> -o yaml \
  --ignore-not-found
find_ns=$(kubectl --context <LOCAL_CONTEXT> get foreignclusters.core.liqo.io <CLUSTER_ID> \
  -o 'jsonpath={.status.tenantNamespace.local}' --ignore-not-found)
find_ns=${find_ns:-liqo-tenant-<CLUSTER_ID>}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("find (-want +got):\n%s", diff)
	}
	if got := step.Shell(drop.Lines(), drop.Context()); !strings.Contains(got, `-n "$find_ns"`) || !strings.Contains(got, "--timeout=1m30s") {
		t.Errorf("drop: got %s", got)
	}
	if rb.Effect() != step.Destroys {
		t.Errorf("effect: got %s, want destroys", rb.Effect())
	}
}

func TestBindGivesTheRunTheSameLines(t *testing.T) {
	rb := mustParse(t, stuck)
	vars := expr.Vars{"inputs.clusterID": "milan", "inputs.lost": false, "clusters.local.context": "rome", "clusters.local.bound": true,
		"cluster.role": "local", "cluster.context": "rome", "steps.find.ns": "liqo-tenant-milan", "steps.find.role": "Consumer"}
	action, unknown, err := rb.Step("drop").Bind(context.Background(), vars)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("Bind: %v, unknown %v", err, unknown)
	}
	page := step.Shell(rb.Step("drop").Lines(), "rome")
	run := step.Shell(action.Kubectl(), "rome")
	if want := strings.ReplaceAll(page, `"$find_ns"`, "liqo-tenant-milan"); run != want {
		t.Errorf("the run types\n%s\nthe page says\n%s", run, want)
	}
	vars["steps.find.ns"] = expr.Unknown
	if _, unknown, err = rb.Step("drop").Bind(context.Background(), vars); err != nil || !cmp.Equal(unknown, []string{"steps.find.ns"}) {
		t.Errorf("with an unknown: %v, %v", unknown, err)
	}
}

func TestARepeatedStepOnThePage(t *testing.T) {
	rb := mustParse(t, head+`- id: list
  get: {resource: pods, allNamespaces: true}
  outputs: {pods: '${result.map(p, {"ns": p.metadata.namespace, "name": p.metadata.name})}'}
- id: each
  forEach: {items: steps.list.pods, as: pod}
  delete: {resource: ips.ipam.liqo.io, namespace: '${pod.ns}', name: '${pod.name}', wait: false}
`)
	s := rb.Step("each")
	want := "# once for each pod\nkubectl --context <LOCAL_CONTEXT> delete ips.ipam.liqo.io <pod.name> -n <pod.ns> \\\n  --ignore-not-found --wait=false"
	if diff := cmp.Diff(want, step.Shell(s.Lines(), s.Context())); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if list := step.Shell(rb.Step("list").Lines(), ""); strings.Contains(list, "list_pods") {
		t.Errorf("a list is put into a shell variable:\n%s", list)
	}
}

func TestResolveInputs(t *testing.T) {
	rb := mustParse(t, strings.Replace(head, "  lost:", `  n: {type: integer, default: 3, doc: A number.}
  kind: {type: enum, values: [big, small], default: big, doc: A kind.}
  id: {type: string, pattern: '[a-z]+', doc: An id.}
  pw: {type: secret, pattern: '[0-9]+', doc: A secret.}
  tags: {type: array, doc: Words.}
  lost:`, 1)+"- {id: a, check: {}}\n")
	got, err := rb.Resolve(map[string]string{"clusterID": "x", "tags": "a,b", "n": "7"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"clusterID": "x", "n": int64(7), "kind": "big", "id": "", "pw": "", "tags": []any{"a", "b"}, "lost": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	_, err = rb.Resolve(map[string]string{"n": "x", "kind": "bgi", "id": "A", "pw": "hunter2", "lots": "true"})
	for _, want := range []string{`free has no input "lots"`, `did you mean "lost"?`, "input clusterID is missing: The cluster.", `"x" is no whole number`,
		`"bgi" is none of big, small`, `"A" does not match`, "the value does not match"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("the error shows a secret")
	}
}

func TestLoadAndFind(t *testing.T) {
	fsys := fstest.MapFS{
		"liqo/free.yaml":            {Data: []byte(stuck)},
		"liqo/other.yaml":           {Data: []byte(stuck)},
		"liqo/free.x.drill.yaml":    {Data: []byte("not read")},
		"liqo/crds/things.crd.yaml": {Data: []byte("not read")},
	}
	all, err := runbook.Load(fsys, step.Builtin())
	if err == nil || !strings.Contains(err.Error(), "liqo/other.yaml:1:1: the file is called other.yaml, but the runbook free") {
		t.Errorf("a misnamed file is not reported: %v", err)
	}
	if len(all) != 1 || all[0].Path != "liqo/free" {
		t.Fatalf("got %v", all)
	}
	if rb, err := runbook.Find(all, "free"); err != nil || rb != all[0] {
		t.Errorf("Find: %v, %v", rb, err)
	}
	if _, err := runbook.Find(all, "fre"); err == nil || !strings.Contains(err.Error(), `did you mean "free"?`) {
		t.Errorf("Find of a misspelt name: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(stuck)
	f.Add(head + "- {id: a, set: {x: '${1 + 1}'}}\n- {id: b, wait: {resource: pods, namespace: '${steps.a.x}', name: p, until: 'result.status.phase == \"Running\"'}}\n")
	f.Add("apiVersion: rutter/v1\nkind: Runbook\nsteps: [{id: a, if: true, get: }]")
	f.Fuzz(func(t *testing.T, text string) {
		rb, err := parse(text)
		if (rb == nil) == (err == nil) {
			t.Fatalf("want a runbook or problems, got %v and %v", rb, err)
		}
		if err != nil {
			if list, ok := diag.AsList(err); !ok || len(list) == 0 {
				t.Fatalf("not diagnostics: %v", err)
			}
			return
		}
		rb.Walk(func(s *runbook.Step, _ int) { step.Shell(s.Lines(), s.Context()) })
		rb.Permissions()
	})
}
