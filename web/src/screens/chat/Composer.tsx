import clsx from "clsx";
import { ArrowUp, FileText, Paperclip, Square, X } from "lucide-react";
import { type KeyboardEvent, type RefObject, useRef, useState } from "react";

import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatBytes } from "@/lib/format";
import { useShortcut } from "@/shell/shortcuts";
import { Button, IconButton } from "@/ui/Button";
import { Kbd } from "@/ui/Kbd";

import { useTeam } from "./agents";
import { type Attached, type Attachments, MOST_FILES } from "./useAttachments";

const MOST_TEXT = 50_000;

interface Props {
  box: RefObject<HTMLTextAreaElement | null>;
  text: string;
  onText: (text: string) => void;
  attachments: Attachments;
  /** An answer is being written. */
  busy: boolean;
  stopping: boolean;
  onSend: (text: string, attachments: Schemas["Attachment"][]) => void;
  onStop: () => void;
}

/** Where messages are written. Enter sends, Shift+Enter breaks the line, Escape stops the answer. */
export function Composer({ box, text, onText, attachments, busy, stopping, onSend, onStop }: Props) {
  const team = useTeam();
  const mayAttach = useMay("objects:write");
  const picker = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const broken = attachments.files.some((file) => file.problem !== undefined);
  const ready = text.trim() !== "" && text.length <= MOST_TEXT && !attachments.uploading && !broken;
  const submit = () => {
    if (!ready) return;
    onSend(text.trim(), attachments.ready);
    attachments.clear();
    onText("");
    box.current?.focus();
  };
  const press = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      submit();
    } else if (event.key === "Escape" && busy) {
      event.preventDefault();
      onStop();
    }
  };
  useShortcut("Escape", "Stop the answer", onStop, busy);
  useShortcut("i", "Write a message", () => box.current?.focus());
  return (
    <form
      aria-label={`Message to ${team.name}`}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onDragOver={(event) => {
        if (!mayAttach || !event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        setOver(false);
        if (!mayAttach) return;
        event.preventDefault();
        attachments.add(event.dataTransfer.files);
      }}
      className={clsx(
        "grid gap-2 rounded-xl border bg-surface p-2 shadow-card focus-within:border-accent-ink",
        over ? "border-dashed border-accent-ink bg-accent-soft" : "border-line-strong",
      )}
    >
      <Files attachments={attachments} />
      <textarea
        ref={box}
        rows={Math.min(10, text.split("\n").length)}
        aria-label={`Message to ${team.name}`}
        placeholder={over ? "Drop files here" : busy ? "Write the next message; it waits for its turn" : `Message ${team.name}`}
        value={text}
        onChange={(event) => onText(event.target.value)}
        onKeyDown={press}
        onPaste={(event) => {
          if (!mayAttach || event.clipboardData.files.length === 0) return;
          event.preventDefault();
          attachments.add(event.clipboardData.files);
        }}
        className="field-sizing-content max-h-60 min-h-9 w-full resize-none bg-transparent px-2 py-1.5 text-base placeholder:text-faint focus-visible:outline-none"
      />
      <div className="flex items-center gap-2">
        {mayAttach && (
          <>
            <input
              ref={picker}
              type="file"
              multiple
              hidden
              onChange={(event) => {
                attachments.add(event.target.files ?? []);
                event.target.value = "";
              }}
            />
            <IconButton label="Attach files" disabled={attachments.files.length >= MOST_FILES} onClick={() => picker.current?.click()}>
              <Paperclip size={17} />
            </IconButton>
          </>
        )}
        <Hint length={text.length} uploading={attachments.uploading} bare={attachments.files.length > 0 && text.trim() === ""} />
        <div className="ml-auto flex items-center gap-2">
          {busy && (
            <Button busy={stopping} icon={<Square size={13} fill="currentColor" />} onClick={onStop} title="Stop the answer (Esc)">
              Stop
            </Button>
          )}
          <Button type="submit" look="primary" disabled={!ready} icon={<ArrowUp size={16} />}>
            {busy ? "Queue" : "Send"}
          </Button>
        </div>
      </div>
    </form>
  );
}

function Hint({ length, uploading, bare }: { length: number; uploading: boolean; bare: boolean }) {
  if (length > MOST_TEXT) return <p className="text-xs text-bad">{length - MOST_TEXT} characters too long</p>;
  if (uploading) return <p className="text-xs text-soft">Files are being stored</p>;
  if (bare) return <p className="text-xs text-soft">Say what to do with it</p>;
  return (
    <p className="hidden items-center gap-1.5 text-xs text-faint sm:flex">
      <Kbd keys="Enter" /> sends, <Kbd keys="Shift Enter" /> breaks the line
    </p>
  );
}

function Files({ attachments }: { attachments: Attachments }) {
  return (
    <div className="contents" aria-live="polite">
      {attachments.files.length > 0 && (
        <ul aria-label="Files for this message" className="flex flex-wrap gap-2">
          {attachments.files.map((file) => (
            <FileChip key={file.id} file={file} onRemove={() => attachments.remove(file.id)} />
          ))}
        </ul>
      )}
      {attachments.refusal && <p className="px-2 text-xs text-bad">{attachments.refusal}</p>}
    </div>
  );
}

function FileChip({ file, onRemove }: { file: Attached; onRemove: () => void }) {
  const done = file.objectId !== undefined;
  return (
    <li className={clsx("relative flex max-w-72 items-center gap-2 overflow-hidden rounded-md border p-1.5 text-xs", file.problem ? "border-bad bg-bad-soft" : "border-line bg-sunken")}>
      {file.preview ? <img src={file.preview} alt="" className="size-9 rounded-sm object-cover" /> : <FileText size={16} aria-hidden className="mx-1 shrink-0 text-faint" />}
      <span className="grid min-w-0">
        <span className="truncate font-medium">{file.name}</span>
        <span className={file.problem ? "text-bad" : "text-faint"}>
          {file.problem ? [file.problem.message, file.problem.hint].filter(Boolean).join(" ") : sizeOf(file)}
        </span>
      </span>
      <IconButton label={`Remove ${file.name}`} size="small" onClick={onRemove}>
        <X size={14} />
      </IconButton>
      {!done && !file.problem && <progress aria-label={`Storing ${file.name}`} value={file.progress} className="absolute inset-x-0 bottom-0 h-0.5 w-full accent-accent" />}
    </li>
  );
}

function sizeOf(file: Attached): string {
  if (file.size === undefined) return "Stored";
  const size = formatBytes(file.size);
  return file.objectId === undefined ? `${Math.round(file.progress * 100)} % of ${size}` : size;
}
