package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrUnreachable means that no answer came from the API server, or from the
// program that gives the credentials for it.
var ErrUnreachable = errors.New("the API server cannot be reached")

// ErrIdentityForbidden means that the user may not read the namespace whose
// UID identifies a cluster.
var ErrIdentityForbidden = errors.New("the cluster's identity cannot be read")

// UnknownOutcome is the error of a write that the server may or may not have
// done: the answer never came, or says that the server does not know either.
// Such a write is not repeated; whoever made it reads the object to find out.
//
// Packages that do not import this one find it with errors.As and an interface
// of its method OutcomeUnknown.
type UnknownOutcome struct{ Err error }

// Error implements error.
func (e *UnknownOutcome) Error() string {
	return "it is not known whether this was done: " + e.Err.Error()
}

// Unwrap returns what went wrong.
func (e *UnknownOutcome) Unwrap() error { return e.Err }

// OutcomeUnknown marks the error for packages that do not import this one.
func (e *UnknownOutcome) OutcomeUnknown() bool { return true }

// noAnswer is a request without a complete answer.
type noAnswer struct {
	context, server string
	err             error
	sent            bool // whether the server may have got the request
	hopeless        bool // whether trying again cannot help
}

func (e *noAnswer) Error() string {
	var p *pluginError
	if errors.As(e.err, &p) {
		return fmt.Sprintf("context %q: %v", e.context, p)
	}
	return fmt.Sprintf("context %q: no answer from %s: %v", e.context, e.server, e.err)
}

func (e *noAnswer) Unwrap() []error { return []error{ErrUnreachable, e.err} }

var errNoHeaders = errors.New("the connection stands but nothing came back in time")

// unanswered makes the error for a request that the client gave up on. The
// attempt's context is below the caller's, which may not have ended.
func (c *Cluster) unanswered(caller, attempt context.Context, err error, sent bool) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	switch cause := context.Cause(caller); {
	case cause == nil && context.Cause(attempt) != nil:
		err = context.Cause(attempt)
	case cause != nil && errors.Is(cause, caller.Err()):
		err = cause
	case cause != nil:
		err = fmt.Errorf("%w: %w", caller.Err(), cause)
	}
	e := &noAnswer{context: c.context, server: c.base.Host, err: err, sent: sent}
	var (
		dns    *net.DNSError
		cert   *tls.CertificateVerificationError
		unkown x509.UnknownAuthorityError
		record tls.RecordHeaderError
		plug   *pluginError
	)
	e.hopeless = errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &cert) || errors.As(err, &unkown) ||
		errors.As(err, &record) || errors.As(err, &plug)
	return e
}

// transient reports whether err may pass by itself, and how long the server
// asked to wait for that.
func transient(err error) (after time.Duration, ok bool) {
	var na *noAnswer
	if errors.As(err, &na) {
		return 0, !na.hopeless
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0, false
	}
	s := status.Status()
	if s.Details != nil {
		after = time.Duration(s.Details.RetryAfterSeconds) * time.Second
	}
	return after, s.Code == http.StatusTooManyRequests || s.Code == http.StatusRequestTimeout || s.Code >= 500
}

// code returns the HTTP status of an error of the API, or 0.
func code(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}
