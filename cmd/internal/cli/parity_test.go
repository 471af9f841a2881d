package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"rutter/content"
	"rutter/executor"
	"rutter/executor/drill"
	"rutter/executor/kube"
	"rutter/executor/kube/kubetest"
	"rutter/generator"
	"rutter/runbooks"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
	"rutter/site"
)

// TestDrillsAndParity does every drill twice: once the executor runs the
// runbook, and once a shell runs the commands that stand on the built page.
// The first must end as the drill says, and the second like the first. With
// the custom resources in the folders of RUTTER_TEST_CRDS, which are stricter
// than the project's own, the executor does them all once more.
func TestDrillsAndParity(t *testing.T) {
	t.Parallel()
	env := &Env{Kinds: step.Builtin()}
	all, err := runbook.Load(runbooks.FS, env.Kinds)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := generator.Render(t.Context(), generator.Config{Content: content.Files, Runbooks: runbooks.FS, Theme: site.Theme})
	if err != nil {
		t.Fatal(err)
	}
	var trials []trial
	for _, rb := range all {
		drills, err := drillsOf(runbooks.FS, rb, env)
		if err != nil {
			t.Fatal(err)
		}
		if len(drills) == 0 {
			t.Errorf("%s has no drill", rb.Path)
		}
		page := commandsOf(t, tree, rb)
		for _, d := range drills {
			trials = append(trials, trial{d, rb, page})
		}
	}
	// Four clusters share the drills; each further set has one to itself. They
	// wait for most of their time, so that several cost little more than one.
	own := make(chan trial, len(trials))
	for _, tr := range trials {
		own <- tr
	}
	close(own)
	for _, name := range []string{"c", "d", "g", "i"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t, name)
			for tr := range own {
				t.Run(tr.drill.Name, func(t *testing.T) {
					crds, err := drill.Definitions(runbooks.FS, tr.drill)
					if err != nil {
						t.Fatal(err)
					}
					g.install(t, crds)
					g.prove(t, tr)
				})
			}
		})
	}
	for i, dir := range filepath.SplitList(os.Getenv("RUTTER_TEST_CRDS")) {
		crds, err := readCRDs(&Env{Dir: "."}, dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			g := newGround(t, string(rune('e'+i%2)))
			g.install(t, crds)
			for _, tr := range trials {
				// One that must stop at a guard makes no object that a stricter
				// definition could refuse.
				if tr.drill.Expect.Outcome == "done" || os.Getenv("RUTTER_EVERY_STATE") != "" {
					t.Run(tr.drill.Name, func(t *testing.T) { g.drill(t, tr) })
				}
			}
		})
	}
}

// trial is a drill, its runbook, and the commands on the runbook's page.
type trial struct {
	drill   *runbook.Drill
	runbook *runbook.Runbook
	page    map[string]string
}

// ground is a practice cluster for drills, which keeps the custom resources
// between them.
type ground struct {
	cluster   *kube.Cluster
	installed map[string]bool
}

func newGround(t *testing.T, name string) *ground {
	t.Helper()
	return &ground{kubetest.Connect(t, name), map[string]bool{}}
}

// install adds custom resources that are not there yet.
func (g *ground) install(t *testing.T, crds []*unstructured.Unstructured) {
	t.Helper()
	var missing []*unstructured.Unstructured
	for _, crd := range crds {
		if !g.installed[crd.GetName()] {
			missing = append(missing, crd)
			g.installed[crd.GetName()] = true
		}
	}
	if len(missing) == 0 {
		return
	}
	if err := drill.Install(t.Context(), g.cluster, missing); err != nil {
		t.Fatal(err)
	}
}

// config makes the cluster that of all roles.
func (g *ground) config(rb *runbook.Runbook) drill.Config {
	cfg := drill.Config{Catalogue: runbooks.FS, CRDs: []*unstructured.Unstructured{}, Now: time.Now, Arenas: map[string]drill.Arena{}, Contexts: map[string]string{}}
	for _, c := range rb.Clusters {
		cfg.Arenas[c.Role], cfg.Contexts[c.Role] = arena{g.cluster}, g.cluster.Context()
	}
	return cfg
}

// drill does one drill by the executor, and once it is done, the runbook again,
// which must find nothing to do.
func (g *ground) drill(t *testing.T, tr trial) {
	cfg := g.config(tr.runbook)
	cfg.Inspect = func(ctx context.Context, job *executor.Job) error {
		if outcome := tr.drill.Expect.Outcome; outcome != "done" && outcome != "nothing to do" {
			return nil
		}
		again, err := executor.Run(ctx, job, executor.Options{ApproveAll: true, Journal: drill.None{}, Now: time.Now})
		if err != nil {
			return err
		}
		if again.Outcome != executor.OutcomeNothing {
			t.Errorf("a second run ends as %q with %d writes (%s), want nothing to do", again.Outcome, again.Writes, again.Why)
		}
		return nil
	}
	res, err := drill.Run(t.Context(), tr.drill, tr.runbook, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range res.Failures {
		t.Error(f)
	}
}

// prove does one drill both ways.
func (g *ground) prove(t *testing.T, tr trial) {
	cfg := g.config(tr.runbook)
	var byExecutor, byHand map[string]string
	cfg.Inspect = func(ctx context.Context, _ *executor.Job) error {
		byExecutor = stateOf(ctx, t, g.cluster)
		return nil
	}
	res, err := drill.Run(t.Context(), tr.drill, tr.runbook, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range res.Failures {
		t.Errorf("by the executor: %s", f)
	}
	cfg.Perform = func(ctx context.Context, job *executor.Job, _ executor.Options) (*executor.Report, error) {
		return res.Report, typeCommands(ctx, t, res.Report, tr.page, job)
	}
	cfg.Inspect = func(ctx context.Context, _ *executor.Job) error {
		byHand = stateOf(ctx, t, g.cluster)
		return nil
	}
	hand, err := drill.Run(t.Context(), tr.drill, tr.runbook, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range hand.Failures {
		t.Errorf("by hand: %s", f)
	}
	if diff := cmp.Diff(byExecutor, byHand); diff != "" {
		t.Errorf("the page's commands end in another state (-executor +by hand):\n%s", diff)
	}
}

// commandsOf reads the commands of each step from the built page.
func commandsOf(t *testing.T, tree generator.Tree, rb *runbook.Runbook) map[string]string {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(tree[path.Join("runbooks", rb.Path, "index.html")]))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		for _, a := range n.Attr {
			if a.Key == "data-kubectl" {
				out[a.Val] = textOf(n)
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	if len(out) == 0 {
		t.Fatalf("the page of %s shows no commands", rb.Path)
	}
	return out
}

func textOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(textOf(c))
	}
	return b.String()
}

// typeCommands does what a person does with the page: fills in the
// placeholders, leaves out the steps whose condition does not hold, and types
// the commands of the others into one shell, without stopping at an error.
func typeCommands(ctx context.Context, t *testing.T, rep *executor.Report, page map[string]string, job *executor.Job) error {
	t.Helper()
	fill := []string{}
	for role, c := range job.Contexts {
		fill = append(fill, step.Readable(step.Mark(step.ContextMark, role)), c)
	}
	for name, v := range job.Inputs {
		text := fmt.Sprint(v)
		fill = append(fill, step.Readable(step.Mark(step.InputMark, name)), text)
	}
	var script strings.Builder
	for _, s := range rep.Steps {
		switch {
		case s.Status == executor.Skipped:
		case s.Step.Each == nil:
			script.WriteString(page[s.Step.ID] + "\n")
		default:
			for _, item := range s.Items {
				script.WriteString(fillItem(page[s.Step.ID], s.Step.Each.As, item) + "\n")
			}
		}
	}
	text := strings.NewReplacer(fill...).Replace(script.String())
	cmd := exec.CommandContext(ctx, "sh")
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+os.Getenv(kubetest.Env))
	out, err := cmd.CombinedOutput()
	t.Logf("typed:\n%s\nprinted:\n%s\nended: %v", text, out, err)
	return ctx.Err()
}

// fillItem puts an item into the commands of a repeated step, as a person does
// who reads "once for each".
func fillItem(text, as string, item any) string {
	fields, ok := item.(map[string]any)
	if !ok {
		return strings.ReplaceAll(text, "<"+as+">", fmt.Sprint(item))
	}
	for name, v := range fields {
		text = strings.ReplaceAll(text, "<"+as+"."+name+">", fmt.Sprint(v))
	}
	return text
}

// stateOf returns every object that a runbook could have to do with, as YAML
// without what differs from run to run.
func stateOf(ctx context.Context, t *testing.T, c *kube.Cluster) map[string]string {
	t.Helper()
	resources := []string{"namespaces", "nodes", "pods", "secrets", "services", "configmaps", "serviceaccounts", "deployments.apps", "daemonsets.apps",
		"clusterrolebindings.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io"}
	crds, err := c.List(ctx, step.Query{Resource: step.Resource{Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		resources = append(resources, crd.GetName())
	}
	ending := map[string]bool{}
	namespaces, err := c.List(ctx, step.Query{Resource: step.Resource{Plural: "namespaces"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces {
		ending[ns.GetName()] = ns.GetDeletionTimestamp() != nil
	}
	state := map[string]string{}
	for _, name := range resources {
		res, err := step.ParseResource(name)
		if err != nil {
			t.Fatal(err)
		}
		objs, err := c.List(ctx, step.Query{Resource: res})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objs {
			// Kubernetes puts these into every namespace, and empties one that
			// is being deleted, in its own time.
			if o.GetName() == "kube-root-ca.crt" || o.GetName() == "default" || ending[o.GetNamespace()] && len(o.GetFinalizers()) == 0 {
				continue
			}
			if ending[o.GetNamespace()] {
				unstructured.RemoveNestedField(o.Object, "metadata", "deletionTimestamp")
				unstructured.RemoveNestedField(o.Object, "metadata", "deletionGracePeriodSeconds")
			}
			state[step.RefOf(res, o).String()] = settled(t, o)
		}
	}
	return state
}

// settled is an object without identities, counts and times.
func settled(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if o.GetDeletionTimestamp() != nil {
		_ = unstructured.SetNestedField(o.Object, "set", "metadata", "deletionTimestamp")
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = ""
	}
	o.SetOwnerReferences(owners)
	// What controllers note goes its own time, and addresses are given out.
	unstructured.RemoveNestedField(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
	unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.Contains(l, "uid:") })
	return strings.Join(lines, "\n")
}
