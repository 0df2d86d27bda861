package policy

import (
	"context"
	"errors"
	"time"
)

// Reload reads the files and bundles on disk anew, takes the newest bundles that were
// downloaded, and puts all of it in force whole. After an error the set in force before
// stays. Decisions under way finish under the set they began with.
func (g *Gate) Reload(ctx context.Context) error {
	g.reload.Lock()
	defer g.reload.Unlock()
	err := g.loader.lookOnDisk(ctx)
	var c *draft
	if err == nil {
		c, err = g.loader.gather(ctx, false)
	}
	return g.swap(ctx, c, err)
}

// swap compiles a candidate and puts it in force. err is what kept it from being read.
// The caller holds g.reload.
func (g *Gate) swap(ctx context.Context, c *draft, err error) error {
	var s *set
	if err == nil {
		s, err = g.loader.build(ctx, c)
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return err // the host stops; nothing was found out about the policy
		}
		g.refused(err)
		var problems Problems
		if c != nil && errors.As(err, &problems) {
			g.standing.refuse(c.digest)
		}
		return err
	}
	g.putInForce(s)
	return nil
}

// putInForce makes s what decides from now on.
func (g *Gate) putInForce(s *set) {
	before := g.current.Load()
	g.current.Store(s)
	now := time.Now().UTC()
	g.metrics.inForce(s.revision, now)
	g.standing.inForce(now)
	for i, b := range g.loader.bundles {
		b.inForce(s.versions[i])
		g.noteBundle(b)
	}
	for _, p := range s.unread {
		if before == nil || !contains(before.unread, p) {
			g.o.Logger.Warn("a file beside the policy is not read", "problem", p.String())
		}
	}
	if before == nil {
		g.o.Logger.Debug("policy loaded", "revision", s.revision, "modules", len(s.modules), "data", len(s.data))
		return
	}
	g.o.Logger.Info("policy replaced", "revision", s.revision, "before", before.revision, "modules", len(s.modules), "data", len(s.data), "took", s.took)
	g.keepNow(s)
}

func contains(ps Problems, p Problem) bool {
	for _, q := range ps {
		if p == q {
			return true
		}
	}
	return false
}

// refused says that what the sources hold now is not put in force, and why; nil: it
// is in force. A problem that stays is said once.
func (g *Gate) refused(err error) {
	if err == nil {
		if g.standing.well() {
			g.o.Logger.Info("policy is in order again", "revision", g.Revision())
		}
		return
	}
	g.metrics.reloads.WithLabelValues(resultFailed).Inc()
	if g.standing.fails(err, time.Now().UTC()) {
		g.o.Logger.Error("policy is not replaced: what its sources hold now cannot be used, and the last good one stays in force",
			"revision", g.Revision(), "problem", err.Error())
	}
	g.writeStatus(true)
}

// noteBundle says how the last check of a bundle went, once for each problem.
func (g *Gate) noteBundle(b *bundleSource) {
	b.mu.Lock()
	problem, good := b.problem, b.good
	b.mu.Unlock()
	g.metrics.checked(b.at, problem == "")
	switch said := g.standing.said(b.at, problem); {
	case problem == said:
	case problem == "":
		g.o.Logger.Info("policy bundle is checked again", "bundle", b.at)
	case good != nil:
		g.o.Logger.Error("policy bundle cannot be checked: the last good one stays in use", "bundle", b.at, "from", b.where(),
			"confirmed", good.confirmed, "problem", problem)
	}
}

// lookOnDisk reads the bundles on disk anew.
func (l *loader) lookOnDisk(ctx context.Context) error {
	var problems Problems
	for _, b := range l.bundles {
		if b.client != nil {
			continue
		}
		if err := b.check(ctx); err != nil {
			problems = append(problems, asProblems(b.at, err)...)
		}
	}
	if ctx.Err() != nil {
		return cutShort(ctx)
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}
