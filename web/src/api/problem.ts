interface Details {
  status: number;
  code: string;
  title: string;
  detail: string;
  hint: string | undefined;
  requestId: string | undefined;
  retryAfter: number | undefined;
  fields?: FieldFault[];
}

/** What is wrong with one field of a request, named as `body.leader.name`. */
export interface FieldFault {
  field: string;
  message: string;
}

/** What the server answered instead of doing what it was asked, in words for people. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly hint: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfter: number | undefined;
  readonly fields: FieldFault[];

  constructor(details: Details) {
    super(details.detail);
    this.name = "ApiProblem";
    this.status = details.status;
    this.code = details.code;
    this.title = details.title;
    this.hint = details.hint;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    this.fields = details.fields ?? [];
  }
}

/** The problem in a response that is not a success. */
export async function readProblem(response: Response): Promise<ApiProblem> {
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  const text = (name: string) => (typeof body[name] === "string" ? body[name] : undefined);
  const wait = Number(response.headers.get("retry-after"));
  return new ApiProblem({
    status: response.status,
    code: text("code") ?? `http_${response.status}`,
    title: text("title") ?? "Something went wrong",
    detail: text("detail") ?? text("title") ?? `The server answered ${response.status}.`,
    hint: text("hint"),
    requestId: text("request_id") ?? response.headers.get("x-request-id") ?? undefined,
    retryAfter: Number.isFinite(wait) && wait > 0 ? wait : undefined,
    fields: Array.isArray(body.fields) ? (body.fields as FieldFault[]) : [],
  });
}

/** The server could not be asked at all. */
export function unreachable(): ApiProblem {
  return new ApiProblem({
    status: 0,
    code: "unreachable",
    title: "AgentOS cannot be reached",
    detail: "The server does not answer.",
    hint: "Check that AgentOS is running and that you are online; this page goes on by itself.",
    requestId: undefined,
    retryAfter: undefined,
  });
}

/** Anything that was thrown, as a problem that can be shown. */
export function problemOf(error: unknown): ApiProblem {
  if (error instanceof ApiProblem) return error;
  return new ApiProblem({
    status: 0,
    code: "unforeseen",
    title: "Something went wrong",
    detail: error instanceof Error ? error.message : String(error),
    hint: "Reload the page; if it happens again, report it with what you did.",
    requestId: undefined,
    retryAfter: undefined,
  });
}
