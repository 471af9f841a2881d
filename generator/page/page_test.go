package page

import (
	"rutter/runbooks/runbook"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/step"
)

func TestRel(t *testing.T) {
	for _, tc := range []struct{ from, to, want string }{
		{"index.html", "faq/index.html", "faq/index.html"},
		{"faq/index.html", "index.html", "../index.html"},
		{"faq/a/b/index.html", "faq/a/c/index.html", "../c/index.html"},
		{"faq/a/index.html", "faq/a/index.html", "index.html"},
		{"faq/a/index.html", "faq/a/index.html#x", "#x"},
		{"faq/a/index.html", "faq/index.html#x", "../index.html#x"},
		{"404.html", "assets/rutter.css", "assets/rutter.css"},
	} {
		if got := Rel(tc.from, tc.to); got != tc.want {
			t.Errorf("Rel(%q, %q) = %q, want %q", tc.from, tc.to, got, tc.want)
		}
	}
}

func in(name string) string  { return step.Mark(step.InputMark, name) }
func out(name string) string { return step.Mark(step.OutputMark, name) }

func TestTokensKeepTheTextAndKnowTheQuoting(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []step.Line
		want  []string // var and quote of each field, in order
	}{
		{"bare", []step.Line{{Words: []string{"kubectl", "get", "pods", in("pod")}}}, []string{"c:local b", "i:pod b"}},
		{"within a quoted word", []step.Line{{Words: []string{"kubectl", "get", "pods", "-l", "a=" + in("pod") + " b"}}}, []string{"c:local b", "i:pod s"}},
		{"after a quoted word", []step.Line{{Words: []string{"kubectl", "get", "it's", in("pod")}}}, []string{"c:local b", "i:pod b"}},
		{"after a note with an apostrophe", []step.Line{{Note: "the shop's pods", Words: []string{"kubectl", "get", in("pod")}}}, []string{"c:local b", "i:pod b"}},
		{"beside a shell variable", []step.Line{{Words: []string{"kubectl", "get", out("find.ns") + "/" + in("pod")}}}, []string{"c:local b", "i:pod b"}},
		{"in a here-document", []step.Line{{Words: []string{"kubectl", "apply", "-f", "-"}, Stdin: "a: 'x'\nname: " + in("pod") + "\n"}, {Words: []string{"kubectl", "get", in("pod")}}}, []string{"c:local b", "i:pod h", "c:local b", "i:pod b"}},
		{"in one that expands", []step.Line{{Words: []string{"kubectl", "apply", "-f", "-"}, Stdin: "ns: " + out("find.ns") + "\nname: " + in("pod") + "\n"}, {Words: []string{"kubectl", "get", in("pod")}}}, []string{"c:local b", "i:pod x", "c:local b", "i:pod b"}},
		{"in a captured here-document", []step.Line{{Assign: "a.b", Words: []string{"kubectl", "create", "-f", "-"}, Stdin: "name: " + in("pod") + "\n"}, {Words: []string{"kubectl", "get", in("pod")}}}, []string{"c:local b", "i:pod h", "c:local b", "i:pod b"}},
		{"in a loop", []step.Line{{Words: []string{"kubectl", "get", "pods"}, Each: &step.Loop{Vars: []string{"name"}, Do: []step.Line{{Words: []string{"kubectl", "patch", in("pod"), "-p", "[{" + in("x") + "}]"}}}}}}, []string{"c:local b", "c:local b", "i:pod b", "i:x s"}},
		{"many words", []step.Line{{Words: []string{"kubectl", "get", strings.Repeat("long", 30), "--selector", "a in (" + in("pod") + ")", "-n", in("ns")}}}, []string{"c:local b", "i:pod s", "i:ns b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			context := step.Mark(step.ContextMark, "local")
			var text strings.Builder
			var got []string
			for _, tok := range tokens(step.Tokens(tc.lines, context)) {
				text.WriteString(tok.Text)
				if tok.Var != "" {
					got = append(got, tok.Var+" "+tok.Quote)
				}
			}
			if diff := cmp.Diff(step.Shell(tc.lines, context), text.String()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields of\n%s\n(-want +got):\n%s", text.String(), diff)
			}
		})
	}
}

func TestClusterRoleGroupsWhatIsAlike(t *testing.T) {
	pods := step.Resource{Plural: "pods"}
	slices := step.Resource{Plural: "resourceslices", Version: "v1beta1", Group: "authentication.liqo.io"}
	tenants := step.Resource{Plural: "tenants", Group: "authentication.liqo.io"}
	got := runbook.ClusterRole("rutter-x", []step.Permission{
		{Verb: "list", Resource: slices}, {Verb: "get", Resource: slices}, {Verb: "get", Resource: tenants, Namespace: in("ns")},
		{Verb: "list", Resource: tenants}, {Verb: "patch", Resource: pods, Subresource: "status", Name: "a"},
	})
	want := `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: rutter-x
rules:
  - apiGroups: [""]
    resources: [pods/status]
    verbs: [patch]
  - apiGroups: ["authentication.liqo.io"]
    resources: [resourceslices, tenants]
    verbs: [get, list]
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFlowFitsItsBoxes(t *testing.T) {
	steps := []Step{
		{Anchor: "step-a", Title: "Find", Effect: Effect{"reads", "reads"}},
		{Anchor: "step-b", Title: "Delete the resource slices of the other cluster, and then some more", Effect: Effect{"destroys", "destroys"}, If: "x", Rescue: []Step{{}}},
		{Anchor: "step-c", Title: "Averyveryverylongwordthatdoesnotfitanywhereatallinabox", Effect: Effect{"reads", "reads"}},
	}
	for _, d := range flow(phases(steps), nil) {
		if lines := strings.Count(d.Path, "M"); len(d.Nodes) != 3 || lines != 2 {
			t.Errorf("%s: %d boxes and %d lines, want 3 and 2", d.Class, len(d.Nodes), lines)
		}
		for _, n := range d.Nodes {
			if n.X+d.Box.X < 0 || n.X-d.Box.X > d.Width || n.Y+d.Box.Y < 0 || n.Y-d.Box.Y > d.Height {
				t.Errorf("%s: box %s leaves the drawing", d.Class, n.Anchor)
			}
			for _, text := range n.Texts {
				if 7*len([]rune(text.Text)) > d.Box.W && text.Class == "" {
					t.Errorf("%s: %q is too long for its box", d.Class, text.Text)
				}
			}
		}
	}
	if d := flow(nil, nil); d[0].Height < 1 {
		t.Errorf("an empty flow has height %d", d[0].Height)
	}
}

func TestPhasesDivideTheSteps(t *testing.T) {
	reads, destroys := Effect{"reads", "reads"}, Effect{"destroys", "destroys"}
	got := phases([]Step{
		{ID: "a", Title: "A", Anchor: "step-a", Effect: reads},
		{ID: "b", Phase: "Cut", Anchor: "step-b", Effect: reads},
		{ID: "c", Anchor: "step-c", Effect: destroys},
	})
	if len(got) != 2 || got[0].Title != "" || got[1].Title != "Cut" || got[1].Anchor != "phase-b" || len(got[1].Steps) != 2 || got[1].Effect != destroys || !got[1].Follows {
		t.Errorf("got %+v", got)
	}
	drawing := flow(got, nil)[0]
	if len(drawing.Nodes) != 2 || drawing.Nodes[1].Texts[0].Text != "2  Cut" || drawing.Nodes[0].Texts[0].Text != "1  A" {
		t.Errorf("the flow shows %+v", drawing.Nodes)
	}
}
