package hostile

import (
	"slices"
)

// tiers are where tools can run: beside the model, or in a sandbox of that tier.
var tiers = []string{brain, "namespace"}

const brain = "brain"

// attack is a guest, what surrounds it, and what must come of it. Exactly one of
// refused, fails and answers is set.
type attack struct {
	guest   string // the source in guests/, without what follows the dot
	name    string // when several attacks use one guest
	trick   string // what it tries; empty: what the source says first
	outcome string // for the table

	capabilities string // further lines of [capabilities]
	tool         string // further lines of [[tool]]
	encoding     string // of the output; "json" when empty
	state        string // the declared state
	plugin       string // lines under [[plugin]] in host.toml
	args         string // arguments of the call; "{}" when empty
	again        bool   // called twice in one batch; the second answer counts

	// later is a pattern of what a call fails with in a sandbox, when nothing but
	// compiling the module shows what the host refuses when it loads it beside the
	// model. The host compiles no module that runs in a sandbox.
	later string

	refused string // a pattern of what is said when the host will not load it
	fails   string // a pattern of the text of a failed call
	answers string // a pattern of the answer as JSON
}

// promise is one thing that holds whatever a plugin does, and the tricks against it.
type promise struct {
	name    string
	attacks []attack
}

var promises = slices.Concat(
	[]promise{
		{"A call ends when its time is over, whatever it does.", timeAttacks},
		{"Memory is bounded, wherever it is taken from.", memoryAttacks},
		{"What is loaded is a module that can run here, and compiling it is bounded.", loadAttacks},
		{"An answer is checked before it is believed, and text stays text.", outputAttacks},
		{"Nothing speaks for another: not for the host, nor another call, nor another plugin's state.", pretenceAttacks},
		{"Nothing of one call is readable in another.", isolationAttacks},
	},
	[]promise{
		{"The network is what was granted, at every hop.", networkAttacks},
		{"The file system is the granted folder, and no more of it than granted.", fileAttacks},
		{"A secret is given to the plugin that names it, and shows nowhere.", secretAttacks},
	},
)
