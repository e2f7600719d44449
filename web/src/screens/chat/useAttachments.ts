import { useCallback, useEffect, useRef, useState } from "react";

import { api } from "@/api/client";
import { type ApiProblem, problemOf } from "@/api/problem";
import type { Schemas } from "@/api/types";
import { formatBytes } from "@/lib/format";

import { folderOf, uniqueName, uploadFile } from "./requests";

/** What a message takes, as docs/teams.md says. */
export const MOST_FILES = 5;
const MOST_BYTES = 10 * 1024 * 1024;

export interface Attached {
  id: string;
  /** Empty if others may know of it. */
  key: string;
  name: string;
  /** Unknown of what was stored for a message before. */
  size: number | undefined;
  /** A picture, to be shown at once. */
  preview: string | undefined;
  progress: number;
  objectId: string | undefined;
  problem: ApiProblem | undefined;
  stop: () => void;
}

export interface Attachments {
  files: Attached[];
  refusal: string | undefined;
  ready: Schemas["Attachment"][];
  uploading: boolean;
  add: (files: Iterable<File>) => void;
  remove: (id: string) => void;
  /** Takes back those of a message that was not sent. */
  restore: (attachments: Schemas["Attachment"][]) => void;
  /** They belong to a message now. */
  clear: () => void;
}

/** Files for the next message: stored as soon as they are chosen. */
export function useAttachments(teamId: string): Attachments {
  const [files, setFiles] = useState<Attached[]>([]);
  const [refusal, setRefusal] = useState<string>();
  const latest = useRef(files);
  latest.current = files;
  const change = useCallback((next: Attached[]) => {
    latest.current = next;
    setFiles(next);
  }, []);
  const set = useCallback(
    (id: string, more: Partial<Attached>) => change(latest.current.map((each) => (each.id === id ? { ...each, ...more } : each))),
    [change],
  );
  const addOne = useCallback(
    (file: File) => {
      const id = uniqueName();
      const name = freeName(file.name || "file", latest.current.map((each) => each.name));
      const key = `${folderOf(teamId)}${id}/${name}`;
      const { done, stop } = uploadFile(key, file, (progress) => set(id, { progress }));
      const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : undefined;
      change([...latest.current, { id, key, name, size: file.size, preview, progress: 0, objectId: undefined, problem: undefined, stop }]);
      done.then(
        (object) => set(id, { objectId: object.id, progress: 1 }),
        (error: unknown) => set(id, { problem: problemOf(error) }),
      );
    },
    [teamId, change, set],
  );
  const add = useCallback(
    (more: Iterable<File>) => {
      const refused: string[] = [];
      for (const file of more) {
        if (latest.current.length >= MOST_FILES) refused.push(`${file.name}: a message takes up to ${MOST_FILES} files.`);
        else if (file.size > MOST_BYTES) refused.push(`${file.name} has ${formatBytes(file.size)}: a file may have up to ${formatBytes(MOST_BYTES)}.`);
        else addOne(file);
      }
      setRefusal(refused.length > 0 ? refused.join(" ") : undefined);
    },
    [addOne],
  );
  const remove = (id: string) => {
    const file = files.find((each) => each.id === id);
    if (file === undefined) return;
    file.stop();
    release(file);
    // Nobody else knows of it. If it cannot be deleted, it stays below attachments/, as any file.
    if (file.objectId && file.key) void api.DELETE("/api/objects/{key}", { params: { path: { key: file.key } } }).catch(() => undefined);
    change(files.filter((each) => each.id !== id));
  };
  const restore = (attachments: Schemas["Attachment"][]) =>
    change(
      attachments.map(({ object_id, name }) => ({
        id: uniqueName(), key: "", name, size: undefined, preview: undefined, progress: 1, objectId: object_id, problem: undefined, stop: () => undefined,
      })),
    );
  const clear = () => {
    files.forEach(release);
    change([]);
    setRefusal(undefined);
  };
  useEffect(() => () => latest.current.forEach(release), []);
  const ready = files.flatMap((each) => (each.objectId ? [{ object_id: each.objectId, name: each.name }] : []));
  const uploading = files.some((each) => each.objectId === undefined && each.problem === undefined);
  return { files, refusal, ready, uploading, add, remove, restore, clear };
}

function release(file: Attached): void {
  if (file.preview) URL.revokeObjectURL(file.preview);
}

/** The name, or one like it if another file has it; slashes and control characters have no place in one. */
export function freeName(wanted: string, taken: string[]): string {
  const clean = wanted.replace(/[/\u0000-\u001f\u007f]/g, "-").slice(-150);
  const dot = clean.lastIndexOf(".");
  const [stem, ending] = dot > 0 ? [clean.slice(0, dot), clean.slice(dot)] : [clean, ""];
  let name = clean;
  for (let count = 2; taken.includes(name); count += 1) name = `${stem}-${count}${ending}`;
  return name;
}
