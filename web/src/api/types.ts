import type { components } from "./schema";

/** The API's own types by name, e.g. `Schemas["TeamRead"]`. */
export type Schemas = components["schemas"];
