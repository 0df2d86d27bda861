package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// EnvironmentState is where an Environment is in its life.
type EnvironmentState string

// The states; see Environment.
const (
	EnvironmentReserved   EnvironmentState = "reserved"
	EnvironmentStarting   EnvironmentState = "starting"
	EnvironmentReady      EnvironmentState = "ready"
	EnvironmentStopping   EnvironmentState = "stopping"
	EnvironmentHibernated EnvironmentState = "hibernated"
	EnvironmentFailed     EnvironmentState = "failed"
	EnvironmentReleased   EnvironmentState = "released"
)

// Environment is what the calls of one session share: a workspace, mounts, limits, and
// at most one Hand. It has an id of its own, which engines know it by.
//
//	reserved ─ first call ─→ starting ─ the Hand answers ─→ ready ─┐
//	                            ↑  └─ it cannot be had ─→ failed   │ idle, or another
//	                            │                           │      │ one needs the place,
//	                            ├── next call, not at once ─┘      │ or the boundary ended
//	                            └── next call ── hibernated ←─ stopping
//
//	any ─ its session has ended, or is gone ─→ released (final)
//
// Calls move it to starting, and may run side by side while it is ready. The Manager
// moves it on: idle for Options.Idle it is hibernated, which ends everything inside and
// keeps the workspace; the next call starts it again, with the same id, session and
// workspace. In the boundary of another tier it is started only after it was stopped
// in the first. A released Environment runs nothing again, and its folder goes when the
// operator's policy says so.
//
// A warm one has no session yet; taking it gives it one, for ever.
//
// All fields are guarded by Manager.mu but those that never change.
type Environment struct {
	id  string // never changes
	dir string // never changes

	state EnvironmentState
	rec   record
	hand  *hand // of ready; while stopping, the one that is being stopped
	calls int   // that run now
	used  time.Time
	idle  *time.Timer // of ready, while no call runs
	final bool        // it is being released
	held  time.Time   // until when it is not stopped to make room: its workspace could not be carried out

	failure  error  // of failed
	failedIn string // the tier of that failure, which may not have been written down
	retryAt  time.Time
	failures int

	filing atomic.Int32 // uses of the workspace by Files
	saving sync.Mutex   // around the writing of rec; taken before Manager.mu
}

// EnvironmentInfo describes an Environment at one moment.
type EnvironmentInfo struct {
	ID        string           `json:"id"`
	Session   string           `json:"session,omitempty"` // empty: warm, not yet owned
	Tier      string           `json:"tier,omitempty"`    // it runs in, or ran in last
	State     EnvironmentState `json:"state"`
	Calls     int              `json:"calls"`
	Created   time.Time        `json:"created"`
	Used      time.Time        `json:"used"`
	Failure   string           `json:"failure,omitempty"`
	Effective *Effective       `json:"effective,omitempty"` // as read back from the last Instance
}

func (e *Environment) info() EnvironmentInfo {
	i := EnvironmentInfo{
		ID: e.id, Session: e.rec.Session, Tier: e.rec.Tier, State: e.state, Calls: e.calls,
		Created: e.rec.Created, Used: e.used, Effective: e.rec.Effective,
	}
	if e.failure != nil {
		i.Failure = e.failure.Error()
	}
	return i
}

// Names in the folder of an Environment.
const (
	recordFile      = "environment.json"
	workspaceFolder = "workspace"
	stateFolder     = "state"
)

func (e *Environment) workspace() string { return filepath.Join(e.dir, workspaceFolder) }
func (e *Environment) ledger() string    { return filepath.Join(e.dir, stateFolder) }

// record is what is on disk of an Environment. It is written before a tier starts
// anything in its name, so that nothing runs that nobody knows of.
type record struct {
	Version   int        `json:"version"`
	ID        string     `json:"id"`
	Session   string     `json:"session,omitempty"`
	Owner     string     `json:"owner,omitempty"` // the process that runs its Instance; empty: none does
	Tier      string     `json:"tier,omitempty"`
	Fallback  string     `json:"fallback,omitempty"` // why Tier is not the configured one
	Key       []byte     `json:"key"`                // of the operation ledger
	Released  bool       `json:"released,omitempty"`
	Created   time.Time  `json:"created"`
	Used      time.Time  `json:"used"`
	Effective *Effective `json:"effective,omitempty"`
}

const recordVersion = 1

var environmentID = regexp.MustCompile(`^e-[a-z0-9]{20}$`)

func (e *Environment) write(r record) error {
	r.Version, r.ID = recordVersion, e.id
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(e.dir, recordFile), raw); err != nil {
		return fmt.Errorf("environment %s: %w", e.id, err)
	}
	return nil
}

// readEnvironment loads what an earlier process left.
func readEnvironment(dir string) (*Environment, error) {
	file := filepath.Join(dir, recordFile)
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	e := &Environment{id: filepath.Base(dir), dir: dir, state: EnvironmentHibernated}
	if err := json.Unmarshal(raw, &e.rec); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if e.rec.ID != e.id || e.rec.Version != recordVersion || len(e.rec.Key) != ledgerKeyBytes {
		return nil, fmt.Errorf("%s: it is not of environment %s in the form of this release", file, e.id)
	}
	if e.rec.Session == "" {
		if e.rec.Session, err = assigned(dir); err != nil {
			return nil, err
		}
	}
	e.used = e.rec.Used
	if e.rec.Released {
		e.state = EnvironmentReleased
	}
	return e, restoreWorkspace(e.workspace())
}

// makeFolders creates what is not there of an Environment's folder. The user is that
// of the Hand, when that is another one than this process has.
func (e *Environment) makeFolders(t Tier) error {
	for _, d := range []string{e.dir, e.workspace(), e.ledger()} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	u, is := t.(HandUser)
	if !is {
		return giveAway(os.Getuid(), os.Getgid(), e.workspace(), e.ledger())
	}
	uid, gid, ok := u.HandUser()
	if !ok {
		uid, gid = os.Getuid(), os.Getgid()
	}
	return giveAway(uid, gid, e.workspace(), e.ledger())
}

// giveAway makes folders, and what is in them, belong to a user, who may be that of an
// engine's containers. Only root can; for anybody else they belong to him already.
func giveAway(uid, gid int, folders ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, dir := range folders {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		err = errors.Join(giveTree(root, uid, gid), root.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

func giveTree(root *os.Root, uid, gid int) error {
	info, err := root.Lstat(".")
	if err != nil || ownedBy(info, uid, gid) {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return ShortError(err)
		}
		if err := TooDeep(name); err != nil || name == "." {
			return err
		}
		return root.Lchown(name, uid, gid)
	})
	if err != nil {
		return err
	}
	return root.Lchown(".", uid, gid) // last: it says that all of it was given
}

func ownedBy(info fs.FileInfo, uid, gid int) bool {
	u, g, ok := ownerOf(info)
	return ok && u == uid && g == gid
}

func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}
