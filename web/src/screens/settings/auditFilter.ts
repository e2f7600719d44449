/** What the address of the audit log holds. */
export interface AuditSearch {
  action?: string | undefined;
  /** A kind of thing, or one thing of it as `kind/id`. */
  target?: string | undefined;
  actor?: string | undefined;
  /** A day in the reader's time zone, as `2026-11-03`. */
  since?: string | undefined;
}

export interface AuditQuery {
  action?: string;
  actor_id?: string;
  target_kind?: string;
  target_id?: string;
  since?: string;
}

/** The same as the API asks for it; a day that is none does not restrict. */
export function auditQuery(search: AuditSearch): AuditQuery {
  const [kind, ...rest] = (search.target ?? "").split("/");
  const id = rest.join("/");
  const since = search.since && /^\d{4}-\d{2}-\d{2}$/.test(search.since) ? new Date(`${search.since}T00:00:00`) : undefined;
  return {
    ...(search.action ? { action: search.action } : {}),
    ...(search.actor ? { actor_id: search.actor } : {}),
    ...(kind ? { target_kind: kind } : {}),
    ...(id ? { target_id: id } : {}),
    ...(since && !Number.isNaN(since.getTime()) ? { since: since.toISOString() } : {}),
  };
}

/** `member.role_changed` → "Member role changed". */
export function actionWords(action: string): string {
  const words = spaced(action.replaceAll(".", " ")).replace(/\bapi\b/, "API");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function spaced(name: string): string {
  return name.replaceAll("_", " ");
}
