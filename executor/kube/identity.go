package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rutter/runbooks/step"
)

// Identity asks the cluster who it is. What could be found is returned with an
// error too; that wraps [ErrIdentityForbidden] if the user may not read the
// namespace kube-system.
func (c *Cluster) Identity(ctx context.Context) (step.Identity, error) {
	id := step.Identity{Context: c.context, Server: c.Server()}
	ns, err := c.Get(ctx, step.Ref{Resource: step.Resource{Plural: "namespaces"}, Name: "kube-system"})
	if err != nil && !apierrors.IsForbidden(err) {
		return id, err // nothing else would be answered better
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrIdentityForbidden, err)
	} else {
		id.UID = ns.GetUID()
	}
	id.Version = c.serverVersion(ctx)
	user, reviewErr := c.whoAmI(ctx)
	id.User = user
	return id, errors.Join(err, reviewErr)
}

// serverVersion returns "" if the server does not tell.
func (c *Cluster) serverVersion(ctx context.Context) string {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	body, err := c.do(ctx, request{verb: "get", what: "the server's version", path: "/version"})
	if err != nil || json.Unmarshal(body, &v) != nil {
		return ""
	}
	return v.GitVersion
}

// whoAmI returns "" if the server is too old to tell or does not want to.
func (c *Cluster) whoAmI(ctx context.Context) (string, error) {
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	err := c.review(ctx, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, &review)
	if isPlainNotFound(err) || apierrors.IsForbidden(err) {
		return "", nil
	}
	return review.Status.UserInfo.Username, err
}

// review posts one of the reviews, which are questions and change nothing.
func (c *Cluster) review(ctx context.Context, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	r := request{verb: "ask", what: "what the user may do", method: http.MethodPost, path: path, body: body}
	reply, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply, answer); err != nil {
		return r.wrap(errors.New("the answer is no review"))
	}
	return nil
}

// accessLimit is how many access reviews are under way at once.
const accessLimit = 8

// Denial is a permission that the user does not have.
type Denial struct {
	Permission step.Permission
	Reason     string // as the server gave it, often ""
}

// Access returns those of perms that the user does not have, each once, in
// their order. A namespace or name that is not known yet is asked for as all.
func (c *Cluster) Access(ctx context.Context, perms []step.Permission) ([]step.Permission, error) {
	denials, err := c.Denials(ctx, perms)
	if err != nil {
		return nil, err
	}
	missing := make([]step.Permission, len(denials))
	for i, d := range denials {
		missing[i] = d.Permission
	}
	return missing, nil
}

// Denials is [Cluster.Access] with the server's reasons.
func (c *Cluster) Denials(ctx context.Context, perms []step.Permission) ([]Denial, error) {
	var asked []step.Permission
	for _, p := range perms {
		p = asFarAsKnown(p)
		if !slices.Contains(asked, p) {
			asked = append(asked, p)
		}
	}
	answers := make([]*Denial, len(asked))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(accessLimit)
	for i, p := range asked {
		g.Go(func() (err error) {
			answers[i], err = c.denied(ctx, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var denials []Denial
	for _, d := range answers {
		if d != nil {
			denials = append(denials, *d)
		}
	}
	return denials, nil
}

// asFarAsKnown returns the permission to ask for.
func asFarAsKnown(p step.Permission) step.Permission {
	p.Resource = p.Resource.Unversioned()
	if step.HasMark(p.Namespace) {
		p.Namespace = ""
	}
	if step.HasMark(p.Name) {
		p.Name = ""
	}
	return p
}

func (c *Cluster) denied(ctx context.Context, p step.Permission) (*Denial, error) {
	var review struct {
		Status struct {
			Allowed         bool   `json:"allowed"`
			Reason          string `json:"reason"`
			EvaluationError string `json:"evaluationError"`
		} `json:"status"`
	}
	attrs := map[string]any{"verb": p.Verb, "group": p.Resource.Group, "resource": p.Resource.Plural}
	for key, value := range map[string]string{"subresource": p.Subresource, "namespace": p.Namespace, "name": p.Name} {
		if value != "" {
			attrs[key] = value
		}
	}
	err := c.review(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": attrs},
	}, &review)
	if err != nil || review.Status.Allowed {
		return nil, err
	}
	reason := review.Status.Reason
	if reason == "" {
		reason = review.Status.EvaluationError
	}
	return &Denial{p, reason}, nil
}
