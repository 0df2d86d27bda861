package standard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/host/config"
)

// Nothing that the host decides by is brought into a sandbox.
func TestPlacesInSandboxes(t *testing.T) {
	dir := t.TempDir()
	for _, made := range []string{"data/ledger", "work", "keys", "policy"} {
		if err := os.MkdirAll(filepath.Join(dir, made), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, settings, want string }{
		{"its own folder", "[[sandbox.mount]]\ntarget = \"/w\"\nfolder = \"work\"\nmode = \"rw\"", ""},
		{"a policy to read", "[[sandbox.mount]]\ntarget = \"/w\"\nfolder = \"policy\"", ""},
		{"a policy to write", "[[sandbox.mount]]\ntarget = \"/w\"\nfolder = \"policy\"\nmode = \"rw\"", "a policy"},
		{"the ledger", "[[sandbox.mount]]\ntarget = \"/w\"\nfolder = \"data/ledger\"", "data_dir"},
		{"everything", "[[sandbox.mount]]\ntarget = \"/w\"\nfolder = \".\"", "the host file"},
		{"the host file", "[[sandbox.mount]]\ntarget = \"/w\"\nfile = \"host.toml\"", "the host file"},
		{"processes", "[[sandbox.mount]]\ntarget = \"/w\"\nfolder = \"/proc\"", "part of /proc"},
		{"what another mount gives read-only", "[[sandbox.mount]]\ntarget = \"/f\"\nfile = \"work/f\"\n[[sandbox.mount]]\ntarget = \"/w\"\nfolder = \"work\"\nmode = \"rw\"", "a file of every sandbox"},
		{"a root with the ledger in it", "[sandbox.namespace]\nfolders = [\"" + dir + "\"]", "[sandbox.namespace].folders: the folder " + dir + " holds"},
		{"a root of another tier too", "[sandbox]\ntier = \"local\"\n[sandbox.namespace]\nfolders = [\"" + dir + "\"]", "[sandbox.namespace].folders"},
		{"the list of the tier", "[sandbox]\ntier = \"namespace\"", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse(filepath.Join(dir, "host.toml"), []byte("version = 1\ndata_dir = \"data\"\n"+c.settings))
			if err != nil {
				t.Fatal(err)
			}
			if err = checkSandboxPlaces(cfg); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
			if err != nil && ExitCode(err) != 2 {
				t.Errorf("exit status %d", ExitCode(err))
			}
		})
	}
}
