import { FileText } from "lucide-react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatBytes } from "@/lib/format";

import { useTeam } from "./agents";
import { folderOf, objectUrl } from "./requests";
import type { Message } from "./thread";

const IMAGE = /^image\/(?:png|jpeg|gif|webp|avif)$/;

/** The files of a message; pictures are shown, and all of them can be had again. */
export function Attachments({ attachments }: { attachments: Message["attachments"] }) {
  const objects = useStoredFiles(attachments.length > 0);
  if (attachments.length === 0) return null;
  return (
    <ul className="flex flex-wrap justify-end gap-2">
      {attachments.map((each) => {
        const object = objects.get(String(each.object_id));
        return (
          <li key={String(each.object_id)}>
            <FileCard name={String(each.name)} size={typeof each.size === "number" ? each.size : undefined} object={object} />
          </li>
        );
      })}
    </ul>
  );
}

/** Messages name files by id; what was sent from here lies in the team's own folder. */
function useStoredFiles(enabled: boolean): Map<string, Schemas["ObjectRead"]> {
  const team = useTeam();
  const may = useMay("objects:read");
  const query = { prefix: folderOf(team.id), limit: 200 };
  const files = $api.useQuery("get", "/api/objects", { params: { query } }, { enabled: enabled && may });
  return new Map(files.data?.items.map((object) => [object.id, object]));
}

function FileCard({ name, size, object }: { name: string; size: number | undefined; object: Schemas["ObjectRead"] | undefined }) {
  if (object && IMAGE.test(object.content_type)) {
    return (
      <a href={objectUrl(object.key)} download={name} className="block overflow-hidden rounded-md border border-line" title={`Download ${name}`}>
        <img src={objectUrl(object.key)} alt={name} className="h-32 max-w-56 bg-sunken object-cover" />
      </a>
    );
  }
  const card = (
    <>
      <FileText size={15} aria-hidden className="shrink-0 text-faint" />
      <span className="truncate">{name}</span>
      {size !== undefined && <span className="shrink-0 text-faint">{formatBytes(size)}</span>}
    </>
  );
  const look = "flex h-8 max-w-64 items-center gap-2 rounded-md border border-line bg-surface px-2.5 text-xs";
  return object ? (
    <a href={objectUrl(object.key)} download={name} className={`${look} hover:bg-hover`}>
      {card}
    </a>
  ) : (
    <span className={look}>{card}</span>
  );
}
