package hand

// SuperviseArg is the argument with which this program is started beside a command.
const SuperviseArg = "supervise"

// NeedlessArg is the argument with which this program tries what a filter of system
// calls is there to refuse.
const NeedlessArg = "needless"

// The files of a supervisor besides the three of the command, which it hands on.
const (
	orderFile  = 3 // from the Hand: an order, and its end when the command is to end
	reportFile = 4 // to the Hand: a report
	folderFile = 5 // the folder that the command starts in
)

// order is a command as its supervisor is told to run it.
type order struct {
	Program   string   `json:"program"` // absolute
	Argv      []string `json:"argv"`
	Env       []string `json:"env"`
	OpenFiles uint64   `json:"open_files"`
	FileBytes uint64   `json:"file_bytes"` // of one file
	// Read and Write are files and folders that the command may read and execute, or
	// change too. Both empty: the kernel cannot confine it further than the boundary.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
}

// report is what became of it.
type report struct {
	Error    string `json:"error,omitempty"` // why it was not started
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
}
