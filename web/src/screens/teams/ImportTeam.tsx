import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { FileUp } from "lucide-react";
import { type DragEvent, useRef, useState } from "react";

import { formatBytes } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { tell } from "@/ui/toasts";

import { faultsOf } from "./faults";
import { importTeam, keepTeam } from "./teamQueries";

/** Takes files that are dropped on an area; says whether one is above it. */
export function useDrop(enabled: boolean, take: (file: File) => void) {
  const [dragging, setDragging] = useState(false);
  const hasFiles = (event: DragEvent) => enabled && event.dataTransfer.types.includes("Files");
  return {
    dragging,
    onDragOver: (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setDragging(true);
    },
    onDragLeave: (event: DragEvent) => {
      if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setDragging(false);
    },
    onDrop: (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setDragging(false);
      const [file] = event.dataTransfer.files;
      if (file) take(file);
    },
  };
}

/** Makes a team of a file, as exporting one gives it. */
export function ImportTeam({ file: given, onClose }: { file?: File | undefined; onClose: () => void }) {
  const navigate = useNavigate();
  const picker = useRef<HTMLInputElement>(null);
  const [file, setFile] = useState(given);
  const [name, setName] = useState("");
  const { dragging, ...drop } = useDrop(true, setFile);
  const run = useMutation({ mutationFn: importTeam });
  const taken = faultsOf(run.error ?? "").name;
  const start = () => {
    if (!file) return;
    run.mutate(
      { document: file, name: name.trim() },
      {
        onSuccess: (team) => {
          keepTeam(team);
          tell(`${team.name} is imported.`);
          void navigate({ to: "/teams/$teamId", params: { teamId: team.id } });
        },
      },
    );
  };
  return (
    <Dialog
      title="Import a team"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" disabled={!file} busy={run.isPending} onClick={start}>
            Import
          </Button>
        </>
      }
    >
      <div {...drop} className={`grid justify-items-center gap-2 rounded-lg border border-dashed px-4 py-8 text-center text-sm ${dragging ? "border-accent bg-accent-soft" : "border-line-strong"}`}>
        <FileUp size={22} aria-hidden className="text-accent-ink" />
        {file ? (
          <p className="max-w-full font-medium break-all">
            {file.name} <span className="font-normal text-soft">({formatBytes(file.size)})</span>
          </p>
        ) : (
          <p className="text-soft">Drop a YAML or JSON file here, as “Export as YAML” gives it.</p>
        )}
        <Button size="small" onClick={() => picker.current?.click()}>
          {file ? "Choose another file" : "Choose a file"}
        </Button>
        <input ref={picker} type="file" accept=".yaml,.yml,.json" aria-label="File of the team" className="sr-only" tabIndex={-1} onChange={(event) => setFile(event.target.files?.[0] ?? file)} />
      </div>
      <TextField label="Name" hint="Leave it empty to use the name in the file. A name is taken once." placeholder="As in the file" error={taken} value={name} onChange={(event) => setName(event.target.value)} />
      {run.error && !taken ? <Problem error={run.error} /> : null}
    </Dialog>
  );
}
