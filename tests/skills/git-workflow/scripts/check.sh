#!/bin/sh
git diff --check
