import { fileURLToPath } from "node:url";

import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// A running AgentOS for `npm run dev`.
const server = process.env.AGENTOS_URL ?? "http://127.0.0.1:8700";
const proxy = { "/api": { target: server, ws: true }, "/health": server };

export default defineConfig({
  // Relative: the server says in <base href> where the dashboard lives.
  base: "./",
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../src/agentos/_ui",
    emptyOutDir: true,
    target: "es2022",
    // Everything must be a file of ours: the content security policy allows no data: scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: { proxy },
  preview: { proxy },
  test: { environment: "node", include: ["src/**/*.test.{ts,tsx}"] },
});
